import { isIPv4 } from 'node:net';
import { HeadgateError, show } from '../common/errors.js';
import { parseAddress, type Address } from './address.js';

/** The default prefix length of IPv6 keys. Most providers give each customer a network of this size or larger. */
export const DEFAULT_SUBNET = 56;

/** How many IPv6 keys are remembered, because parsing takes microseconds. */
const REMEMBERED = 1000;

const MAPPED = '::ffff:';

/** Makes a key of an address. @throws HeadgateError `HEADGATE_NO_CLIENT_IP` */
export type ClientKey = (ip: string | undefined) => string;

/**
 * Makes keys of client addresses. An IPv4 address is used as it is, even within IPv6 (mapped, NAT64). The key of an IPv6 address is its
 * network, in canonical form and without the zone, because a client can use every address of its network.
 *
 * @param subnet the network's prefix length: 1 to 128
 */
export function clientKeys(subnet: number): ClientKey {
  const known = new Map<string, string>();
  return (ip) => {
    if (typeof ip !== 'string') throw noClientIp(ip);
    if (isIPv4(ip)) return ip;
    let key = known.get(ip);
    if (key === undefined) {
      key = keyOf(ip, subnet);
      if (known.size === REMEMBERED) known.clear();
      known.set(ip, key);
    }
    return key;
  };
}

const keysBySubnet = new Map<number, ClientKey>();

/** The key of one address for a given prefix length: see {@link clientKeys}. */
export function clientKeyOf(ip: string | undefined, subnet: number): string {
  let keys = keysBySubnet.get(subnet);
  if (!keys) keysBySubnet.set(subnet, (keys = clientKeys(subnet)));
  return keys(ip);
}

/** The address that the option `clientIp` returned. @throws HeadgateError `HEADGATE_NO_CLIENT_IP` unless it is a text or missing */
export function checkClientIp(ip: unknown): string | undefined {
  if (ip === undefined || ip === null) return undefined;
  if (typeof ip !== 'string') throw noClientIp(ip);
  return ip;
}

function keyOf(ip: string, subnet: number): string {
  const mapped = ip.startsWith(MAPPED) ? ip.slice(MAPPED.length) : '';
  if (isIPv4(mapped)) return mapped;
  const address = parseAddress(ip);
  if (!address) throw noClientIp(ip);
  return network(address, subnet);
}

function network(address: Address, subnet: number): string {
  if (!('parts' in address)) return address.toString();
  address.parts = address.parts.map((part, i) => {
    const bits = Math.min(16, Math.max(0, subnet - 16 * i));
    return part & (0xffff << (16 - bits));
  });
  return subnet === 128 ? address.toRFC5952String() : `${address.toRFC5952String()}/${subnet}`;
}

function noClientIp(ip: unknown): HeadgateError {
  return new HeadgateError(
    'HEADGATE_NO_CLIENT_IP',
    `The client's IP address is ${show(ip)}. Without it there is no key to limit by: with one key for all, any client could ` +
      'lock out all others. Behind a proxy, set the framework\'s "trust proxy" to that proxy and no further; if the server listens on ' +
      'a Unix socket, or the proxy sends no addresses, write a `keyGenerator`. The address is also undefined after the ' +
      'client has disconnected.',
  );
}
