// The functions of Node's modules that the library uses, for runtimes without these modules. The build puts this file in place of every
// import of `node:...`. Where a runtime has a module, and the difference can be seen, the module is looked up.
import { Buffer } from './globals.js';
import { hashBytes, hmacBytes } from './hash.js';

type Bytes = InstanceType<typeof Buffer>;

/** The runtime's module. Undefined if the runtime has none. */
function builtin<T>(name: string): T | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => T | undefined } };
  return process?.getBuiltinModule?.(name);
}

// node:crypto

class Hash {
  #bytes: Bytes = Buffer.alloc(0);
  readonly #finish: (bytes: Uint8Array) => Uint8Array;

  constructor(finish: (bytes: Uint8Array) => Uint8Array) {
    this.#finish = finish;
  }

  update(data: string | Uint8Array, encoding?: 'utf16le'): this {
    this.#bytes = Buffer.concat([this.#bytes, typeof data === 'string' ? Buffer.from(data, encoding) : data]);
    return this;
  }

  digest(): Bytes;
  digest(encoding: 'hex' | 'base64url' | 'binary'): string;
  digest(encoding?: 'hex' | 'base64url' | 'binary'): Bytes | string {
    const bytes = Buffer.from(this.#finish(this.#bytes));
    return encoding ? bytes.toString(encoding) : bytes;
  }
}

export const createHash = (kind: 'sha1' | 'sha256'): Hash => new Hash((bytes) => hashBytes(kind, bytes));

export const createHmac = (_kind: 'sha256', key: string | Uint8Array): Hash =>
  new Hash((bytes) => hmacBytes(typeof key === 'string' ? Buffer.from(key) : key, bytes));

export const createSecretKey = (key: Uint8Array): Uint8Array => key;

export const randomBytes = (length: number): Bytes => crypto.getRandomValues(Buffer.alloc(length) as never);

/** The bias of the remainder is below 2^-22. */
export const randomInt = (below: number): number => randomBytes(6).readUIntBE(0, 6) % below;

// node:os

export const hostname = (): string => 'edge';

// node:async_hooks

interface Storage {
  snapshot(): (run: () => void) => void;
}

const direct: Storage = { snapshot: () => (run) => run() };

export const AsyncLocalStorage: Storage =
  builtin<{ AsyncLocalStorage: Storage }>('node:async_hooks')?.AsyncLocalStorage ??
  (globalThis as { AsyncLocalStorage?: Storage }).AsyncLocalStorage ??
  direct;

// node:diagnostics_channel

interface Channel {
  readonly hasSubscribers: boolean;
  publish(message: unknown): void;
}

/** Without the module nobody can subscribe. */
const silent: Channel = { hasSubscribers: false, publish: () => {} };

export const channel = (name: string): Channel =>
  builtin<{ channel(name: string): Channel }>('node:diagnostics_channel')?.channel(name) ?? silent;

// node:net

export const isIPv4 = (text: string): boolean =>
  text.split('.').length === 4 &&
  text.split('.').every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256);

export function isIPv6(text: string): boolean {
  const [address, zone] = text.split(/%(.*)/s) as [string, string?];
  const isWritten = /^[\da-f:.]*:[\da-f:.]*$/i.test(address) && /^[a-z\d.:-]+$/i.test(zone ?? '-');
  // Only the URL parser of the runtime knows all forms.
  return isWritten && URL.canParse(`http://[${address}]/`);
}

export const isIP = (text: string): 0 | 4 | 6 => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0);

// node:util

export const inspect = { custom: Symbol.for('nodejs.util.inspect.custom') };

export const types = {
  isNativeError: (value: unknown): boolean => Object.prototype.toString.call(value) === '[object Error]',
};

// node:querystring

export function stringify(query: Readonly<Record<string, unknown>>): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each): [string, string] => [name, String(each)]),
  );
  return new URLSearchParams(pairs).toString();
}
