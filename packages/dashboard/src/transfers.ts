// Export and import of bans and overrides, as lines that the command line writes and reads.
import { HeadgateError } from 'headgate';
import {
  banJson,
  contentOf,
  exactMilliseconds,
  overrideJson,
  printableJson,
  readBanLine,
  readOverrideLine,
  whoseJson,
  type Admin,
  type BanEffect,
  type ImportedBan,
  type OverrideEffect,
  type OverrideWish,
  type Refused,
} from 'headgate/admin';
import { BanOrigins } from './ban-origins.js';
import { changed, overrides, type Changed } from './changes.js';
import type { Note } from './entries.js';
import { firstOf } from './first.js';
import { choice, optional, refuse, text, type Body } from './input.js';
import { onPage } from './words.js';

/** The most lines of an import. Its undo is a change of each of them. */
const MAX_LINES = 1000;

const MAX_EXPORTED = 10_000;

const KINDS = ['bans', 'overrides'] as const;

/** A line of an import, and its effect or the reason why it is refused. */
type Row = {
  readonly line: number;
  readonly text: string;
  readonly name: unknown;
  readonly key?: unknown;
} & (BanEffect | OverrideEffect | Refused);

export interface ImportPreview {
  readonly rows: readonly Row[];
  /** The number of lines without an effect: bans that have ended, and facts other than bans. */
  readonly skipped: number;
}

export async function exportedLines(admin: Admin, query: URLSearchParams): Promise<string> {
  const kind = choice('kind', query.get('kind') ?? '', KINDS);
  const name = query.get('name') || undefined;
  const all = await (kind === 'bans' ? exportedBans(admin, name) : exportedOverrides(admin, name));
  const lines = all.slice(0, MAX_EXPORTED).map((json) => printableJson(JSON.stringify(json)));
  if (all.length > MAX_EXPORTED) lines.push(`# The first ${MAX_EXPORTED}. The command line exports all.`);
  return lines.map((line) => `${line}\n`).join('');
}

async function exportedBans(admin: Admin, name: string | undefined): Promise<object[]> {
  const bans = await firstOf(admin.bans({ name, scan: 'never' }), MAX_EXPORTED + 1);
  const origins = await new BanOrigins(admin).of(bans);
  return bans.map((ban, i) => banJson(ban, origins[i]));
}

async function exportedOverrides(admin: Admin, name: string | undefined): Promise<object[]> {
  const found = await firstOf(admin.overrides({ name }), MAX_EXPORTED + 1);
  return found.map((each) => ({ ...whoseJson(each), ...overrideJson(each) }));
}

/** The effects of an import. Nothing is changed. */
export function previewLines(admin: Admin, body: Body): Promise<ImportPreview> {
  return fileOf(admin, body).preview();
}

/** Imports lines, unless one is refused. @param by the operator; the page cannot set the name */
export async function importLines(admin: Admin, body: Body, by: string): Promise<Changed> {
  const note = { by, reason: text(body, 'reason') };
  const file = fileOf(admin, body);
  const { rows } = await file.preview();
  for (const row of rows) if ('error' in row) refuse(`Line ${row.line}: ${row.error} Nothing was changed.`);
  if (rows.length === 0) refuse('The lines have no ban or override. Nothing was changed.');
  return file.make(note);
}

function fileOf(admin: Admin, body: Body): File {
  const lines = linesOf(text(body, 'text'));
  const kind = choice('kind', String(body['kind']), KINDS);
  return kind === 'bans' ? bansIn(admin, body, lines) : overridesIn(admin, body, lines);
}

interface Line {
  readonly line: number;
  readonly text: string;
}

function linesOf(file: string): Line[] {
  const lines = file.split(/\r?\n/).flatMap((each, i): Line[] => {
    const content = contentOf(each);
    return content === undefined ? [] : [{ line: i + 1, text: content }];
  });
  if (lines.length > MAX_LINES)
    refuse(
      `The page imports at most ${MAX_LINES} lines at a time. The command line imports any number.`,
      413,
    );
  return lines;
}

interface Parsed<T> extends Line {
  readonly found: T | Refused;
}

/** Parses lines. A fault becomes the reason of a refusal. */
function parsed<T extends object>(
  lines: readonly Line[],
  parse: (line: string) => T | undefined,
): Parsed<T>[] {
  return lines.flatMap((line): Parsed<T>[] => {
    try {
      const found = parse(line.text);
      return found === undefined ? [] : [{ ...line, found }];
    } catch (error) {
      if (!(error instanceof HeadgateError || error instanceof SyntaxError)) throw error;
      return [{ ...line, found: { error: onPage(error.message) } }];
    }
  });
}

/** The rows of lines. @param effects those of the lines that could be parsed */
function rowsOf<T extends object>(
  lines: readonly Parsed<T>[],
  effects: readonly (BanEffect | OverrideEffect | Refused)[],
  whose: (found: T) => { readonly name: unknown; readonly key?: unknown },
): Row[] {
  let at = 0;
  return lines.map(({ found, ...line }) =>
    'error' in found
      ? { ...line, name: null, error: found.error }
      : { ...line, ...whose(found), ...effectOf(effects[at++]!) },
  );
}

const effectOf = (effect: BanEffect | OverrideEffect | Refused): typeof effect =>
  'error' in effect
    ? { error: onPage(effect.error) }
    : {
        ...effect,
        warnings: effect.warnings.map(({ code, message }) => ({ code, message: onPage(message) })),
      };

const foundIn = <T extends object>(lines: readonly Parsed<T>[]): T[] =>
  lines.flatMap(({ found }) => ('error' in found ? [] : [found]));

/** A file that can be shown and imported. */
interface File {
  preview(): Promise<ImportPreview>;
  make(note: Note): Promise<Changed>;
}

function bansIn(admin: Admin, body: Body, lines: readonly Line[]): File {
  const length = optional(body, 'for', text);
  const defaults = {
    name: optional(body, 'name', text),
    dimension: optional(body, 'dimension', text),
    duration: length === undefined ? undefined : exactMilliseconds('for', length),
  };
  const all = parsed(lines, (line) => {
    const found = readBanLine(line, defaults);
    return found?.for === 0 ? undefined : found;
  });
  const bans: ImportedBan[] = foundIn(all);
  return {
    async preview() {
      const effects = await admin.previewBans(bans);
      const rows = rowsOf(all, effects, ({ name, key, dimension }) => ({ name, key, dimension }));
      return { rows, skipped: lines.length - all.length };
    },
    make: (note) =>
      changed(admin, note, async () => {
        const { banned, warnings } = await admin.importBans(bans, note);
        const names = new Map(bans.map(({ name }) => [JSON.stringify(name), name]));
        const written = [...names.values()].map(
          (of) => ({ action: 'import', name: of, keys: 'unknown' }) as const,
        );
        return { warnings, written: banned === 0 ? [] : written };
      }),
  };
}

function overridesIn(admin: Admin, body: Body, lines: readonly Line[]): File {
  const name = text(body, 'name');
  const length = optional(body, 'for', text);
  const end = length === undefined ? undefined : { for: length };
  const all = parsed(lines, (line): OverrideWish => {
    const { key, dimension, change, until } = readOverrideLine(line, { name });
    if (change === undefined) throw new SyntaxError('the line has no "change", such as "1000/1m".');
    return { key, dimension, change, ...(end ?? (until !== undefined && { until })) };
  });
  const wishes = foundIn(all);
  return {
    async preview() {
      const effects = await admin.previewOverrides(wishes, { name });
      const rows = rowsOf(all, effects, ({ key, dimension, change }) => ({
        name,
        key,
        dimension,
        after: change,
      }));
      return { rows, skipped: 0 };
    },
    make: (note) =>
      changed(admin, note, async () => {
        const own = wishes.map((wish) => ({ ...wish, ...note }));
        return overrides(await admin.overrideMany(own, { name }));
      }),
  };
}
