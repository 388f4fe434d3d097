import ipaddr from 'ipaddr.js';

export type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** The longest text of an address: a mapped one, written in full, and its zone. */
const LONGEST = 64;

/**
 * Reads an IP address; undefined if it is none. An IPv4 address mapped into IPv6 (`::ffff:10.0.0.1`) is the IPv4 one. Forms
 * of IPv4 that are not four decimal numbers (`10.1`, `0x0a000001`, `010.0.0.1`) are refused: not everyone reads them alike.
 */
export function parseAddress(text: string): Address | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  if (text.length > LONGEST || !ipaddr.IPv6.isValid(text)) return undefined;
  const address = ipaddr.IPv6.parse(text);
  return address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}
