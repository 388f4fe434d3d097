import { MAX_UNITS } from '../common/validate.js';
import type { Params, Rates } from '../algorithms/index.js';
import type { BanNoteOptions } from './ban-options.js';
import type { CompiledPolicy } from './policy.js';

/**
 * What an override is written as, beside the state of its key: lines, the newest first, one for each time with its own limits. A line has
 * when it began and when it ends (ms by the store's clock; 0: not yet known). Behind tabs follow, for each policy, its id and numbers: its
 * limit, then the params that differ, or none if only the limit does. The id `*`, which comes first, has the revision of a change that only
 * clients can read, such as another tier. The last field is the change as JSON. Older lines stay for as long as charges of that time count.
 */
export type OverrideRecord = string;

/** The id of a change that numbers cannot express. No policy has it. */
export const RULE = '*';

/** The beginning of a revision that replaces all policies of a key by those of another tier. No hash contains it. */
export const TIER_RULE = 'tier=';

/** The tag of records in keys. */
export const OVERRIDE_TAG = 'o1';

/** The most lines of a record. */
export const MOST_LINES = 8;

/** The text of a change: a line without its times. */
export function lineOf(fields: ReadonlyMap<string, readonly number[] | string>, json: string): string {
  const written = [...fields].map(([id, numbers]) => {
    return `\t${id}\t${typeof numbers === 'string' ? numbers : numbers.join(' ')}`;
  });
  return `${written.join('')}\t${json}`;
}

/** A change of a record. */
export interface RecordChange {
  /** A line without its times, or empty if the override in force ends. */
  readonly line: string;
  /** The duration, ms, or 0 for an override that lasts until it is removed. */
  readonly duration: number;
  /** The longest time for which a charge counts, ms. */
  readonly life: number;
  /** The operator who ends an override, and the reason. The line of a new override has both. */
  readonly note?: BanNoteOptions;
}

/** The time for which a record without an end is kept, ms: a hundred years. */
export const FOR_EVER = 100 * 365 * 24 * 60 * 60 * 1000;

/** Applies a change to a record. @returns the record, and the end of its use. The script `set-override.lua` does the same. */
export function changeRecord(
  record: OverrideRecord,
  { line, duration, life }: RecordChange,
  now: number,
): { readonly record: OverrideRecord; readonly until: number } {
  const lines = record.split('\n').filter((each) => each !== '');
  const kept: string[] = [];
  let last = 0;
  for (const each of lines) {
    const [header, since, until, rest] = /^(\d+) (\d+)(.*)$/s.exec(each) ?? [];
    if (header === undefined) continue;
    // Keeps a line that ends in the millisecond in which it began, because charges of that time may be by it.
    if (Number(since) > now) continue;
    const end = until === '0' ? now : Math.min(now, Number(until));
    if (end + life <= now || kept.length === MOST_LINES - 1) continue;
    kept.push(`${since} ${end}${rest}`);
    last = Math.max(last, end + life);
  }
  if (line !== '') {
    const end = duration === 0 ? 0 : now + duration;
    kept.unshift(`${now} ${end}${line}`);
    last = Math.max(last, duration === 0 ? now + FOR_EVER : end + life);
  }
  return { record: kept.join('\n'), until: last };
}

/** A span of time with its own limits. */
export interface Line {
  /** ms since the epoch, by the store's clock. */
  readonly since: number;
  /** `Infinity` if the end is not known. */
  readonly until: number;
  /** By policy id: the limit, then the params that differ. */
  readonly numbers: ReadonlyMap<string, readonly number[]>;
  /** The revision of a change that numbers cannot express. Empty for all other changes. */
  readonly rule: string;
  /** The change as JSON. */
  readonly json: string;
}

/** A record after it was parsed. */
export class Overrides {
  readonly #lines: readonly Line[];
  /** The policies as the last requested lines change them. */
  readonly #changed = new WeakMap<
    readonly CompiledPolicy[],
    { readonly lines: readonly (Line | undefined)[]; readonly policies: readonly CompiledPolicy[] }
  >();

  constructor(record: OverrideRecord) {
    this.#lines = record.split('\n').flatMap(lineFrom);
  }

  /**
   * The entry in force at a time, for a policy if its id is given. The newest entry comes first, so a key's own entry takes precedence over an
   * entry of all keys behind it.
   */
  at(time: number, id?: string): Line | undefined {
    return this.#lines.find((line) => line.since <= time && time < line.until && isAbout(line, id));
  }

  /** The entry in force now. If the clock went back, the newest entry stays in force. */
  now(time: number, id?: string): Line | undefined {
    const [last] = this.#lines;
    const isAhead = last && last.since > time && time < last.until && isAbout(last, id);
    return isAhead ? last : this.at(time, id);
  }

  /** The entry in force for each of the policies. */
  lines(of: readonly CompiledPolicy[], now: number): readonly (Line | undefined)[] {
    return of.map(({ id }) => this.now(now, id));
  }

  /** The policies as these lines change them, as the same array until a line changes. */
  policies(of: readonly CompiledPolicy[], lines: readonly (Line | undefined)[]): readonly CompiledPolicy[] {
    const known = this.#changed.get(of);
    if (known && lines.every((line, i) => line === known.lines[i])) return known.policies;
    const policies = of.map((policy, i) => this.#change(policy, lines[i]));
    this.#changed.set(of, { lines, policies });
    return policies;
  }

  #change(policy: CompiledPolicy, line: Line | undefined): CompiledPolicy {
    const numbers = line?.numbers.get(policy.id);
    if (!policy.traits.drains) {
      if (!numbers) return policy;
      const [limit] = numbers as [number];
      const { sent } = policy;
      const moved = sent && { sent: (time: number) => [limit, ...sent(time).slice(1)] };
      return { ...policy, limit, params: paramsOf(policy, numbers), ...moved };
    }
    const rates: Rates = {
      at: (time) => paramsOf(policy, this.at(time, policy.id)?.numbers.get(policy.id)),
      near: (time) =>
        this.#near(time, policy.id).map((each) => paramsOf(policy, each?.numbers.get(policy.id))),
      turns: (from, to) => this.#turns(from, to),
      base: policy.params,
    };
    // Stores receive only the numbers as params. The rates are for the columns of this process.
    const params = { ...paramsOf(policy, numbers), rates } as unknown as Params;
    return { ...policy, limit: numbers?.[0] ?? policy.limit, params };
  }

  /** All entries that may have been in force within a millisecond. */
  #near(time: number, id: string): (Line | undefined)[] {
    const lines = this.#lines.filter(({ since, until }) => since <= time && time <= until);
    return [...lines, this.at(time, id), this.at(time - 1, id)];
  }

  #turns(from: number, to: number): number[] {
    const turns = new Set(this.#lines.flatMap(({ since, until }) => [since, until]));
    return [...turns].filter((turn) => turn > from && turn <= to).sort((a, b) => a - b);
  }
}

/** Whether a line says what is in force for a policy. One about other policies leaves that to the lines behind it. */
function isAbout({ rule, numbers }: Line, id: string | undefined): boolean {
  return id === undefined || rule.startsWith(TIER_RULE) || numbers.has(id);
}

function paramsOf({ params }: CompiledPolicy, numbers: readonly number[] | undefined): Params {
  if (!numbers) return params;
  const names = Object.keys(params);
  const changed = numbers.length === 1 ? numbers : numbers.slice(1);
  return { ...params, ...Object.fromEntries(changed.map((number, i) => [names[i]!, number])) };
}

/** Whether a field consists of numbers, of which the first is a limit. A field that Headgate did not write changes nothing. */
function isOfNumbers(field: string): boolean {
  const [limit] = field.split(' ').map(Number);
  return /^\d+( \d+)*$/.test(field) && limit! >= 1 && limit! <= MAX_UNITS;
}

/** The part of a line that only clients can apply: the revision, a tab, and the change as JSON. Empty if there is none. */
export function ruleOf(line: Line | undefined): string {
  return line === undefined || line.rule === '' ? '' : `${line.rule}\t${line.json}`;
}

function lineFrom(text: string): Line[] {
  const [times = '', ...fields] = text.split('\t');
  const [since, until] = times.split(' ').map(Number);
  if (since === undefined || until === undefined || Number.isNaN(since + until) || fields.length === 0)
    return [];
  const json = fields.pop()!;
  const numbers = new Map<string, readonly number[]>();
  let rule = '';
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (fields[i] === RULE) rule = fields[i + 1]!;
    else if (isOfNumbers(fields[i + 1]!)) numbers.set(fields[i]!, fields[i + 1]!.split(' ').map(Number));
  }
  return [{ since, until: until === 0 ? Infinity : until, numbers, rule, json }];
}

const MOST_READ = 1000;
const read = new Map<OverrideRecord, Overrides>();

/** Parses a record. Recent records are remembered. */
export function readOverrides(record: OverrideRecord): Overrides {
  let overrides = read.get(record);
  if (!overrides) {
    if (read.size >= MOST_READ) read.clear();
    read.set(record, (overrides = new Overrides(record)));
  }
  return overrides;
}

/** The entry in force by a record in a store. @returns undefined if there is none, or no record */
export function inForce(record: unknown, now: number): Line | undefined {
  return typeof record === 'string' ? readOverrides(record).now(now) : undefined;
}

/** Whether a part of a record was not written by a limiter. A line without its times changes nothing. */
export function isDamaged(record: unknown): boolean {
  return (
    typeof record === 'string' &&
    record.split('\n').some((line) => line !== '' && lineFrom(line).length === 0)
  );
}

/** The text of a line: the change as the operator passed it, the operator, and the reason. */
export interface Said extends BanNoteOptions {
  readonly change: unknown;
}

/** Parses the text of a line. @returns undefined if a limiter did not write it */
export function saidOf(json: string): Said | undefined {
  try {
    const said: unknown = JSON.parse(json);
    return typeof said === 'object' && said !== null && 'change' in said ? said : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether an override names a policy or a tier that a limiter has. Otherwise it changes nothing.
 *
 * @param sets the policies by tier, with `''` for the policies without one
 * @param by the dimension of the key, by which each tier must have a policy. Undefined if the override is of all keys
 */
export function isReadable(
  { rule, numbers, json }: Line,
  sets: ReadonlyMap<string, readonly CompiledPolicy[]>,
  by: string | undefined,
): boolean {
  const policies = [...sets.values()].flat();
  if (rule === '') return policies.some(({ id }) => numbers.has(id));
  const { change } = saidOf(json) ?? {};
  const fields = Object.keys(Object(change) as object);
  if (typeof change !== 'string' && policies.some(({ name }) => fields.includes(name))) return true;
  const { tier } = Object(change) as { tier?: string };
  const isRead = [...sets.values()].every(
    (set) => by === undefined || set.some((policy) => policy.by === by),
  );
  if (tier !== undefined) return sets.has(tier) && isRead;
  return change !== undefined && [...sets.values()].every((set) => set.length <= 1);
}

/** The overrides that a limiter already knows, sent to the store with each question. */
export interface OverrideTerms {
  /** By dimension, the revision of the change that the policies already include. */
  readonly rules: Readonly<Record<string, string>>;
  /** The record of all keys, for buckets. It is weaker than a key's own record. */
  readonly all: OverrideRecord;
}

/** The terms of a limiter whose policies are as configured. */
export const AS_CONFIGURED: OverrideTerms = Object.freeze({ rules: Object.freeze({}), all: '' });

/** Whether there is no known override that the store must apply. An override of all keys may already be part of the policies. */
export function isAsConfigured({ all, rules }: OverrideTerms): boolean {
  return all === '' && Object.keys(rules).length === 0;
}

/** The dimensions that have a record for a set: the dimensions of its policies. */
export function recordDimensions({ policies }: { readonly policies: readonly CompiledPolicy[] }): string[] {
  return [...new Set(policies.map(({ by }) => by))];
}
