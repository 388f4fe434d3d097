import { invalidOption } from '../common/errors.js';
import type { MaybePromise } from '../contract/store.js';
import { looksLikeAddress, parseAddress, type Address } from './address.js';

/**
 * The members of a list: IP addresses (`'10.0.0.1'`, `'2001:db8::1'`), networks (`'10.0.0.0/8'`, `'2001:db8::/32'`) and keys (any text
 * without the form of an address); or a function of the request and the request's key. Addresses and networks match the client's address in
 * any notation, but never a key, because a client may choose its own key.
 */
export type ListOption<Request> =
  readonly string[] | { call(request: Request, key?: string): MaybePromise<boolean> }['call'];

/** Whether a request is on the list, by the client's address or by the request's key. */
export type List<Request> = (
  request: Request,
  address: string | undefined,
  key: string | undefined,
) => MaybePromise<boolean>;

/**
 * Compiles an `allowList` or a `denyList`. The cost per request does not depend on the number of entries: one lookup in a set of keys, and
 * one lookup per prefix length in the list.
 *
 * @param option the option's name, for messages
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` unless the list is an array or a function, for empty entries, and for entries with the
 * form of an address but without a valid address
 */
export function compileList<Request>(option: string, list: ListOption<Request>): List<Request> {
  if (typeof list === 'function') return (request, _address, key) => list(request, key);
  if (!Array.isArray(list)) {
    throw invalidOption(option, list, 'Pass an array of IP addresses, networks and keys, or a function.');
  }
  const keys = new Set<string>();
  const networks = new Networks();
  (list as readonly unknown[]).forEach((entry, i) => {
    const network = parseEntry(`${option}[${i}]`, entry);
    if (typeof network === 'string') keys.add(network);
    else networks.add(network);
  });
  return (_request, address, key) =>
    (key !== undefined && keys.has(key)) || (address !== undefined && networks.has(address));
}

export interface Network {
  readonly address: Address;
  readonly prefix: number;
}

const NETWORK = /^([^/]+)\/(\d{1,3})$/;

const FIX =
  'Pass an IP address without brackets and port, a network such as 10.0.0.0/8 or 2001:db8::/32, or a key. To list a key that looks like an address, ' +
  'begin your keys with a word: `user:1.2` instead of `1.2`.';

/** Parses an address, a network, or a key. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function parseEntry(where: string, entry: unknown): Network | string {
  if (typeof entry !== 'string' || entry.trim() === '') throw invalidOption(where, entry, FIX);
  const parts = NETWORK.exec(entry);
  const address = parseAddress(parts?.[1] ?? entry);
  if (address) {
    const bits = address.kind() === 'ipv4' ? 32 : 128;
    // The prefix length of a network of mapped or NAT64 addresses includes the 96 bits before the IPv4 address.
    const mapped = bits === 32 && entry.includes(':') ? 96 : 0;
    const prefix = parts ? Number(parts[2]) - mapped : bits;
    if (prefix >= 0 && prefix <= bits) return { address, prefix };
  }
  if (looksLikeAddress(entry)) throw invalidOption(where, entry, FIX);
  return entry;
}

/** Networks of both families by prefix length. A lookup masks the address once per length. */
class Networks {
  readonly #ofFamily = {
    ipv4: new Map<number, Set<string>>(),
    ipv6: new Map<number, Set<string>>(),
  };

  add({ address, prefix }: Network): void {
    const lengths = this.#ofFamily[address.kind()];
    let found = lengths.get(prefix);
    if (!found) lengths.set(prefix, (found = new Set()));
    found.add(masked(bitsOf(address), prefix));
  }

  has(text: string): boolean {
    if (this.#ofFamily.ipv4.size + this.#ofFamily.ipv6.size === 0) return false;
    const address = parseAddress(text);
    if (!address) return false;
    const bits = bitsOf(address);
    for (const [prefix, found] of this.#ofFamily[address.kind()]) {
      if (found.has(masked(bits, prefix))) return true;
    }
    return false;
  }
}

/** The address as a string with one character per byte: four for IPv4, sixteen for IPv6. */
function bitsOf(address: Address): string {
  return String.fromCharCode(...address.toByteArray());
}

function masked(bits: string, prefix: number): string {
  const whole = prefix >> 3;
  const rest = prefix & 7;
  const head = bits.slice(0, whole);
  return rest === 0 ? head : head + String.fromCharCode(bits.charCodeAt(whole) & (0xff << (8 - rest)));
}
