import { isIPv4, isIPv6 } from 'node:net';

/** The maximum length of an address, characters: a mapped address, written in full, with its zone. */
const MAX_ADDRESS_LENGTH = 64;

/** The groups of an IPv6 address. */
const GROUPS = 8;

/** The beginnings of IPv6 networks that embed an IPv4 address in the last 32 bits: mapped addresses (RFC 4291) and NAT64 (RFC 6052). */
const IPV4_NETWORKS = [
  [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
  [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0],
];

/** An IP address. A library for these few steps would be 3 % of the bundle of an adapter. */
export class Address {
  /** Four of IPv4, sixteen of IPv6. */
  readonly bytes: readonly number[];

  constructor(bytes: readonly number[]) {
    this.bytes = bytes;
  }

  get kind(): 'ipv4' | 'ipv6' {
    return this.bytes.length === 4 ? 'ipv4' : 'ipv6';
  }

  /** The address without the bits behind a prefix. */
  network(prefix: number): Address {
    return new Address(
      this.bytes.map((byte, i) => byte & ~(0xff >> Math.min(8, Math.max(0, prefix - 8 * i)))),
    );
  }

  /** The address in canonical form (RFC 5952). */
  toString(): string {
    const { bytes } = this;
    if (this.kind === 'ipv4') return bytes.join('.');
    const groups = Array.from({ length: GROUPS }, (_, i) => (bytes[2 * i]! << 8) | bytes[2 * i + 1]!);
    const { at, length } = longestZeros(groups);
    const textOf = (part: readonly number[]): string => part.map((group) => group.toString(16)).join(':');
    if (length < 2) return textOf(groups);
    return `${textOf(groups.slice(0, at))}::${textOf(groups.slice(at + length))}`;
  }
}

/** The first of the longest runs of zeros. */
function longestZeros(groups: readonly number[]): { at: number; length: number } {
  let longest = { at: 0, length: 0 };
  let at = 0;
  for (let i = 0; i < groups.length; i++) {
    if (groups[i] !== 0) at = i + 1;
    else if (i + 1 - at > longest.length) longest = { at, length: i + 1 - at };
  }
  return longest;
}

/**
 * Parses an IP address. An IPv4 address within IPv6 (`::ffff:10.0.0.1`, `64:ff9b::10.0.0.1`) becomes an IPv4 address, and a zone is
 * dropped. IPv4 must be four decimal numbers, even within IPv6, because programs read other forms (`10.1`, `0x0a000001`, `010.0.0.1`)
 * differently.
 *
 * @returns `undefined` if the text is not an address
 */
export function parseAddress(text: string): Address | undefined {
  if (text.length > MAX_ADDRESS_LENGTH) return undefined;
  if (isIPv4(text)) return new Address(bytesOfIpv4(text));
  if (!isIPv6(text)) return undefined;
  const bytes = bytesOfIpv6(text.replace(/%.*/, ''));
  const isOfIpv4 = IPV4_NETWORKS.some((network) => network.every((byte, i) => byte === bytes[i]));
  return new Address(isOfIpv4 ? bytes.slice(12) : bytes);
}

const bytesOfIpv4 = (text: string): number[] => text.split('.').map(Number);

/** @param text that is an IPv6 address without a zone */
function bytesOfIpv6(text: string): number[] {
  const [head = '', tail] = text.split('::');
  const [first, last] = [bytesOfGroups(head), bytesOfGroups(tail ?? '')];
  // `::` stands for the missing groups.
  const zeros = 2 * GROUPS - first.length - last.length;
  return [...first, ...Array<number>(Math.max(0, zeros)).fill(0), ...last];
}

function bytesOfGroups(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (group.includes('.')) return bytesOfIpv4(group);
    const number = parseInt(group, 16);
    return [number >> 8, number & 0xff];
  });
}

/** The text before a `/`, a `%`, a space or the end, if it has no letters, or only a to f. `x` is allowed. */
const WITHOUT_LETTERS = /^[\P{L}xX]*(?=[\s/%]|$)/u;
const WITHOUT_WORDS = /^[\P{L}a-fA-FxX]*(?=[\s/%]|$)/u;

/** Matches, for example, `10/8` and `fe80:/10`. */
const SHORT_NETWORK = /^(\d+|[\da-f]*:[\da-f:]*)\/\d+$/i;

/** Two to four numbers, of which at least one is hexadecimal, and others may be octal. */
const HEX_IPV4 = /^(?=.*x)(0[0-7]*|[1-9]\d*|0x[\da-f]+)(\.(0[0-7]*|[1-9]\d*|0x[\da-f]+)){1,3}$/i;
const OCTAL = /^0[0-7]+$/;

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
    isIpv4WithHex(text)
  );
}

/** Whether a text is an IPv4 address with a hexadecimal number, such as 0x7f.0.0.1 or 127.0xa. */
function isIpv4WithHex(text: string): boolean {
  if (!HEX_IPV4.test(text)) return false;
  const numbers = text.split('.').map((part) => (OCTAL.test(part) ? parseInt(part, 8) : Number(part)));
  const most = [0xffffff, 0xffff, 0xff][numbers.length - 2]!;
  return numbers.every((number, i) => number <= (i === numbers.length - 1 ? most : 0xff));
}
