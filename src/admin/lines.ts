// Facts as lines of JSON, for files: the command line and the dashboard write and read the same ones.
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { kindOfHash } from '../stores/keys.js';
import type { Hash, Whose, WhoseKey } from './owners.js';
import { wrongArgument } from './typed-keys.js';

export type Json = Readonly<Record<string, unknown>>;

/** A field for programs, or the field of its hash. */
export function textOrHash(field: string, value: string | Hash): object {
  return typeof value === 'string' ? { [field]: value } : { [`${field}Hash`]: value.hash };
}

/** The fields of the limiter and the key for programs: `name` and `key`, or `nameHash` and `keyHash` if only the hash is known. */
export function whoseJson({ name, key, dimension, within }: Whose): object {
  return {
    ...textOrHash('name', name),
    ...(key === undefined ? { all: true } : textOrHash('key', key)),
    ...(dimension !== undefined && { dimension }),
    ...(within !== undefined && { within }),
  };
}

/** A fact about a key for programs: the fields of the limiter and the key as `whoseJson` has them, and the rest. */
export function factJson({ name, key, kind, ...rest }: WhoseKey & { readonly kind: string }): object {
  return { kind, ...textOrHash('name', name), ...textOrHash('key', key), ...rest };
}

/** The field of the dimension. Absent for the default dimension. */
export function dimensionJson(dimension: string): { dimension?: string } {
  return dimension === DEFAULT_DIMENSION ? {} : { dimension };
}

/** The content of a line of a file. Undefined for a blank line and a comment. @param raw whether a key may begin or end with blanks */
export function contentOf(line: string, raw = false): string | undefined {
  const text = raw ? line.replace(/^\ufeff/, '') : line.trim();
  return text === '' || text.startsWith('#') ? undefined : text;
}

/** The text or the hash in a field, or undefined. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
export function textOrHashIn(line: Json, field: string): string | Hash | undefined {
  const hash = line[`${field}Hash`];
  const isHash = typeof hash === 'string' && kindOfHash(hash) !== undefined;
  return textIn(line, field) ?? (isHash ? { hash } : undefined);
}

/** The text in a field, or undefined. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
export function textIn(line: Json, field: string): string | undefined {
  const text = line[field] ?? undefined;
  if (text === undefined || typeof text === 'string') return text;
  throw wrongArgument(`"${field}": ${JSON.stringify(text)} is not text.`);
}
