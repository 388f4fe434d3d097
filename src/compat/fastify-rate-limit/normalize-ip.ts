import { isIPv6 } from 'node:net';
import { clientKeyOf } from '../../http/client-key.js';

export const DEFAULT_SUBNET = 64;

/**
 * A client's address as a key: IPv4 as it is, also where it comes mapped into IPv6; of IPv6 its network's first address.
 *
 * @param ipv6Subnet the network's prefix length
 * @throws HeadgateError `HEADGATE_NO_CLIENT_IP` if there is no address
 */
export function normalizeIP(ip: string, ipv6Subnet = DEFAULT_SUBNET): string {
  if (typeof ip === 'string' && !isIPv6(ip)) return ip.toLowerCase();
  return clientKeyOf(ip, ipv6Subnet).replace(/\/\d+$/, '');
}
