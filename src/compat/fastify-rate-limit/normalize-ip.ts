import { isIPv6 } from 'node:net';
import { clientKeyOf } from '../../http/client-key.js';

export const DEFAULT_SUBNET = 64;

/**
 * A client's address as a key. IPv4 stays as it is, even mapped into IPv6. IPv6 becomes the first address of its network.
 *
 * @param ipv6Subnet the network's prefix length
 * @throws HeadgateError `HEADGATE_NO_CLIENT_IP` if there is no address
 */
export function normalizeIP(ip: string, ipv6Subnet = DEFAULT_SUBNET): string {
  if (typeof ip === 'string' && !isIPv6(ip)) return ip.toLowerCase();
  return clientKeyOf(ip, ipv6Subnet).replace(/\/\d+$/, '');
}
