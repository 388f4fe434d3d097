import { isIPv4, isIPv6 } from 'node:net';
import ipaddr, { type IPv4, type IPv6 } from 'ipaddr.js';

export type Address = IPv4 | IPv6;

/** The maximum length of an address, characters: a mapped address, written in full, with its zone. */
const MAX_ADDRESS_LENGTH = 64;

/** IPv6 networks that embed an IPv4 address in the last 32 bits: mapped addresses (RFC 4291) and NAT64 (RFC 6052). */
const IPV4_NETWORKS = ['::ffff:0:0', '64:ff9b::'].map((prefix) => ipaddr.IPv6.parse(prefix));

/**
 * Parses an IP address. An IPv4 address within IPv6 (`::ffff:10.0.0.1`, `64:ff9b::10.0.0.1`) becomes an IPv4 address, and a zone is
 * dropped. IPv4 must be four decimal numbers, even within IPv6, because programs read other forms (`10.1`, `0x0a000001`, `010.0.0.1`)
 * differently.
 *
 * @returns `undefined` if the text is not an address
 */
export function parseAddress(text: string): Address | undefined {
  if (text.length > MAX_ADDRESS_LENGTH) return undefined;
  if (isIPv4(text)) return ipaddr.IPv4.parse(text);
  if (!isIPv6(text)) return undefined;
  // ipaddr.js accepts only the notation `::10.0.0.1` as an address with an embedded IPv4 address.
  const address = ipaddr.IPv6.parse(text.replace(/%.*/, '').replace(/^::(?=\d+\.)/, '::0:'));
  const isOfIpv4 = IPV4_NETWORKS.some((prefix) => address.match(prefix, 96));
  return isOfIpv4 ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address;
}

/** The text before a `/`, a `%`, a space or the end, if it has no letters, or only a to f. `x` is allowed. */
const WITHOUT_LETTERS = /^[\P{L}xX]*(?=[\s/%]|$)/u;
const WITHOUT_WORDS = /^[\P{L}a-fA-FxX]*(?=[\s/%]|$)/u;

/** Matches, for example, `10/8` and `fe80:/10`. */
const SHORT_NETWORK = /^(\d+|[\da-f]*:[\da-f:]*)\/\d+$/i;

/**
 * Whether a text looks like an IP address, a network, a range, or an address with a port. Such a text has either a number before a dot and
 * no letters, or two colons and no letters except a to f. `x` and `*` may stand for a part. Anything after a `/`, a `%` or a space is
 * ignored.
 */
export function looksLikeAddress(text: string): boolean {
  const beginning = (pattern: RegExp): string => pattern.exec(text)?.[0] ?? '';
  return (
    /[\d*]\./.test(beginning(WITHOUT_LETTERS)) ||
    /:[^:]*:/.test(beginning(WITHOUT_WORDS)) ||
    SHORT_NETWORK.test(text) ||
    // Accepts, for example, 0x7f.0.0.1.
    (text.includes('.') && ipaddr.IPv4.isValid(text))
  );
}
