import { isIPv6 } from 'node:net';
import { clientKeyOf, DEFAULT_SUBNET } from '../../http/client-key.js';
import { checkInteger } from '../../common/validate.js';

const COMPATIBLE = /^[0:]+:(\d+\.\d+\.\d+\.\d+)$/;

/**
 * Returns the default key: an IPv4 address itself, even inside IPv6, or the network of an IPv6 address.
 *
 * @param ipv6Subnet the network's prefix length, 1 to 128, also as text, or `false` for single addresses
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function ipKeyGenerator(ip: string, ipv6Subnet: number | false = DEFAULT_SUBNET): string {
  if (!isIPv6(ip)) return ip;
  const compatible = COMPATIBLE.exec(ip);
  if (compatible) return compatible[1]!;
  const subnet = ipv6Subnet === false ? 128 : checkInteger('ipv6Subnet', Number(ipv6Subnet), 1, 128);
  const key = clientKeyOf(ip, subnet);
  if (!isIPv6(key)) return key;
  return ipv6Subnet === false ? ip : `${key}/128`;
}
