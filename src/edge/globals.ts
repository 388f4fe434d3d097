// The globals of Node that the library uses, for runtimes without them. The build puts them in place of the free names.
import { timerOf, type EdgeTimer } from './real-time.js';

export { clearTimeout, setTimeout } from './real-time.js';

type Encoding = 'utf8' | 'utf16le' | 'latin1' | 'binary' | 'hex' | 'base64' | 'base64url';

const characters = (bytes: Uint8Array): string => {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
};

/** The methods of Node's class that the library uses. */
// @ts-expect-error `from` differs from that of the base, as in Node's class.
class EdgeBuffer extends Uint8Array {
  static override from(source: string | Iterable<number>, encoding?: Encoding): EdgeBuffer {
    if (typeof source !== 'string') return new EdgeBuffer([...source]);
    if (encoding !== 'utf16le') return new EdgeBuffer(new TextEncoder().encode(source));
    const bytes = new EdgeBuffer(2 * source.length);
    for (let i = 0; i < source.length; i++) {
      const unit = source.charCodeAt(i);
      bytes[2 * i] = unit & 0xff;
      bytes[2 * i + 1] = unit >> 8;
    }
    return bytes;
  }

  static alloc(length: number): EdgeBuffer {
    return new EdgeBuffer(length);
  }

  static concat(parts: readonly Uint8Array[]): EdgeBuffer {
    return new EdgeBuffer(parts.flatMap((part) => [...part]));
  }

  static byteLength(text: string): number {
    return new TextEncoder().encode(text).length;
  }

  override toString(encoding: Encoding = 'utf8'): string {
    if (encoding === 'latin1' || encoding === 'binary') return characters(this);
    if (encoding === 'hex') return [...this].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    if (encoding === 'utf8') return new TextDecoder().decode(this);
    const base64 = btoa(characters(this));
    return encoding === 'base64'
      ? base64
      : base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  }

  readUIntBE(at: number, length: number): number {
    return this.slice(at, at + length).reduce((number, byte) => number * 256 + byte, 0);
  }

  writeUIntBE(number: number, at: number, length: number): void {
    for (let i = at + length - 1, rest = number; i >= at; i--, rest = Math.floor(rest / 256))
      this[i] = rest % 256;
  }
}

export const setInterval = (run: () => void, ms: number): EdgeTimer =>
  timerOf(globalThis.setInterval(run, ms));

export function clearInterval(timer: EdgeTimer | undefined): void {
  if (timer) globalThis.clearInterval(timer.id);
}

/** The runtime's own `process`, or a part of one. */
const real = (globalThis as { process?: Partial<NodeJS.Process> }).process;

const edgeProcess = {
  env: real?.env ?? {},
  versions: {},
  pid: 0,
  nextTick: (run: () => void) => queueMicrotask(run),
  emitWarning(warning: string, options: string | { type: string; code: string }): void {
    if (real?.emitWarning) real.emitWarning(warning, options as { type: string });
    // eslint-disable-next-line no-console -- other runtimes have no warnings of their own
    else console.warn(typeof options === 'string' ? warning : `[${options.code}] ${warning}`);
  },
};

export { EdgeBuffer as Buffer, edgeProcess as process };
