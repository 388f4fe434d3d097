import { isIPv4 } from 'node:net';
import { HeadgateError, show } from '../common/errors.js';
import { memo } from '../common/memo.js';
import { parseAddress, type Address } from './address.js';

/** The default prefix length of IPv6 keys. Most providers give each customer a network of this size or larger. */
export const DEFAULT_SUBNET = 56;

/** The number of IPv6 keys that are cached, because parsing takes microseconds. */
const MAX_CACHED_KEYS = 1000;

const MAPPED = '::ffff:';

/** Returns the key of an address. @throws HeadgateError `HEADGATE_NO_CLIENT_IP` */
export type ClientKey = (ip: string | undefined) => string;

/**
 * Creates keys of client addresses. An IPv4 address is itself the key, even within IPv6 (mapped, NAT64). The key of an IPv6 address is the
 * network in canonical form, because a client can use every address of the network.
 *
 * @param subnet the network's prefix length, 1 to 128
 */
export function clientKeys(subnet: number): ClientKey {
  const networkOf = memo(MAX_CACHED_KEYS, (ip: string) => keyOf(ip, subnet));
  return (ip) => {
    if (typeof ip !== 'string') throw noClientIp(ip);
    return isIPv4(ip) ? ip : networkOf(ip);
  };
}

const keysBySubnet = new Map<number, ClientKey>();

/** The key of one address for a prefix length: see {@link clientKeys}. */
export function clientKeyOf(ip: string | undefined, subnet: number): string {
  let keys = keysBySubnet.get(subnet);
  if (!keys) keysBySubnet.set(subnet, (keys = clientKeys(subnet)));
  return keys(ip);
}

/**
 * Checks the address that the option `clientIp` returned. @throws HeadgateError `HEADGATE_NO_CLIENT_IP` unless the address is a string or
 * missing
 */
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
    `The client's IP address is ${show(ip)}. Without an address there is no key to limit by, and if all such requests shared a key, any client could ` +
      'lock out the others. Behind a proxy, set the framework\'s "trust proxy" to that proxy only; if the server listens on ' +
      'a Unix socket, or the proxy sends no addresses, pass a `keyGenerator`; in a handler of a `Request`, a `clientIp` whose field is ' +
      'always sent. It is undefined, too, once the client has left.',
  );
}
