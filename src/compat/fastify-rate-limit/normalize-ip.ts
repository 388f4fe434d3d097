import { isIPv6 } from 'node:net';
import { clientKeyOf } from '../../http/client-key.js';

export const DEFAULT_SUBNET = 64;

/**
 * Returns a client's address as a key. An IPv4 address is unchanged, even mapped into IPv6. An IPv6 address becomes the first address of
 * its network.
 *
 * @param ipv6Subnet the network's prefix length
 * @throws HeadgateError `HEADGATE_NO_CLIENT_IP` if there is no address
 */
export function normalizeIP(ip: string, ipv6Subnet = DEFAULT_SUBNET): string {
  if (typeof ip === 'string' && !isIPv6(ip)) return ip.toLowerCase();
  return clientKeyOf(ip, ipv6Subnet).replace(/\/\d+$/, '');
}
