// States as text, in the format "escape" of PostgreSQL: a byte of ASCII is itself, so that a state has half the size of hex.

import { decode, encode } from '../state/saved-state.js';

/** Bytes that are written as octal numbers: all but printable ASCII. A backslash is doubled. */
const ESCAPED = /[^\x20-\x5b\x5d-\x7e]/;

/** Octal numbers, and doubled backslashes. */
const ESCAPES = /\\(\\|[0-7]{3})/g;

/** The text of bytes, in a single line of ASCII. */
export function escaped(bytes: Uint8Array): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  return ESCAPED.test(text) ? text.replace(new RegExp(ESCAPED, 'g'), escape) : text;
}

/** The same of bytes that are a text: most texts are in single lines of ASCII. */
export function escapedText(text: string): string {
  return ESCAPED.test(text) ? escaped(encode(text)) : text;
}

/** The text of the bytes of {@link unescaped}. */
export function unescapedText(text: string): string {
  return text.includes('\\') ? decode(unescaped(text)) : text;
}

function escape(byte: string): string {
  return byte === '\\' ? '\\\\' : `\\${byte.charCodeAt(0).toString(8).padStart(3, '0')}`;
}

/** The bytes of a text that {@link escaped} or the server made. */
export function unescaped(text: string): Uint8Array {
  const bytes = text.includes('\\')
    ? text.replace(ESCAPES, (_, of: string) => (of === '\\' ? of : String.fromCharCode(parseInt(of, 8))))
    : text;
  return Buffer.from(bytes, 'latin1');
}
