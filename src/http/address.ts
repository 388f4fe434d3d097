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

/** What stands before a `/`, a `%`, a space or the end, if it has no letters; and if it has none but a to f. */
const WITHOUT_LETTERS = /^[\P{L}xX]*(?=[\s/%]|$)/u;
const WITHOUT_WORDS = /^[\P{L}a-fA-FxX]*(?=[\s/%]|$)/u;

/** `10/8`, `fe80:/10`. */
const SHORT_NETWORK = /^(\d+|[\da-f]*:[\da-f:]*)\/\d+$/i;

/**
 * Whether a text looks like an IP address, a network, a range, or something with a port: it has a number before a dot and no
 * letters, or two colons and no letters but a to f. `x` and `*` may stand for a part. What follows behind a `/`, a `%` or a
 * space makes no difference.
 */
export function looksLikeAddress(text: string): boolean {
  const beginning = (pattern: RegExp): string => pattern.exec(text)?.[0] ?? '';
  return (
    /[\d*]\./.test(beginning(WITHOUT_LETTERS)) ||
    /:[^:]*:/.test(beginning(WITHOUT_WORDS)) ||
    SHORT_NETWORK.test(text) ||
    // 0x7f.0.0.1
    (text.includes('.') && ipaddr.IPv4.isValid(text))
  );
}
