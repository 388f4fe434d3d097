import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { clientKey } from 'headgate/http';

export interface ClientOptions {
  /** Prefix length of IPv6 keys, 1 to 128. @default that of Headgate */
  readonly subnet: number | undefined;
  /** The number of proxies that belong to the user, or `undefined` for all those with private addresses. */
  readonly trustedHops: number | undefined;
}

/** Returns the client's key for an address or for a list as in X-Forwarded-For, or `undefined` if the text is neither. */
export type ClientOf = (text: string) => string | undefined;

/** The lists that are remembered, because the same ones occur often. */
const MAX_REMEMBERED = 10_000;

const PRIVATE = new Set(['private', 'loopback', 'linkLocal', 'uniqueLocal', 'carrierGradeNat']);

/** Makes a function that finds the client's key: Headgate's default key. */
export function clients({ subnet, trustedHops }: ClientOptions): ClientOf {
  const known = new Map<string, string | undefined>();

  const single: ClientOf = (text) => {
    const address = addressIn(text);
    return address === undefined ? undefined : clientKey(address, subnet);
  };

  return (text) => {
    if (!text.includes(',')) return single(text);
    if (!known.has(text)) {
      if (known.size === MAX_REMEMBERED) known.clear();
      const chosen = fromList(text.split(','), trustedHops);
      known.set(text, chosen === undefined ? undefined : single(chosen));
    }
    return known.get(text);
  };
}

/**
 * Returns the client in a list. Each proxy has appended the sender that it saw. Everything before the entry of the first trusted proxy is
 * only the client's claim.
 */
function fromList(list: readonly string[], trustedHops: number | undefined): string | undefined {
  // Values in W3C logs have no spaces: IIS writes `+` behind the commas, and CloudFront `%20`.
  const entries = list.map((entry) => entry.replace(/^(?:\+|%20)/, '').trim());
  // The text contains a comma, but no addresses.
  if (addressIn(entries.at(-1)!) === undefined) return undefined;
  if (trustedHops !== undefined) return entries[Math.max(0, entries.length - trustedHops)];
  const addresses = entries.filter((entry) => addressIn(entry) !== undefined);
  return addresses.findLast((entry) => !isPrivate(addressIn(entry)!)) ?? addresses[0];
}

/** Whether an address is private. In its canonical form, an IPv4 address within IPv6 is one of IPv4. */
const isPrivate = (address: string): boolean => PRIVATE.has(ipaddr.parse(clientKey(address, 128)).range());

/** The address in a text, which may also be `192.0.2.1:5678` or `[2001:db8::1]:5678`. */
function addressIn(text: string): string | undefined {
  if (isIP(text) !== 0) return text;
  const address = /^\[?(.*?)\]?(?::\d+)?$/.exec(text)?.[1] ?? '';
  return isIP(address) === 0 ? undefined : address;
}

/** Whether a text is an address, or a list that begins or ends with one. */
export function isAddressList(text: string): boolean {
  const entries = text.split(',');
  return addressIn(entries[0]!) !== undefined || addressIn(entries.at(-1)!.trim()) !== undefined;
}

/** The name of a client that a server looked up, in lower case. */
export const hostName = (text: string): string | undefined =>
  /^[\w.-]+$/.test(text) ? text.toLowerCase() : undefined;
