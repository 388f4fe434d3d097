// The words for overrides, in all of the code:
// - A change is the operator's wish: a policy, some of a policy's fields, or another tier.
// - An entry is a change with a time: the beginning and end of its force, and the limits for each policy.
// - A record is the stored list of a key's entries, the newest first.
// - A client change is a change that a store cannot apply, such as another tier. The caller applies the change, and a revision identifies it.
import { memo } from '../../../common/memo.js';
import { MAX_UNITS } from '../../../common/validate.js';
import type { Params, Rates } from '../../../algorithms/index.js';
import type { ChangeNoteOptions } from '../../../contract/change-note.js';
import type { CompiledPolicy } from '../../../contract/policy.js';

/**
 * The stored text of a key's overrides, next to the key's state: a line per entry, the newest first. An entry begins with its start and end
 * (ms by the store's clock; 0 if the end is not yet known). Behind tabs follow, for each policy, the id and the limits: the limit, then the
 * differing params (none if only the limit differs). The id `*`, which comes first, has the revision of a client change. The last field is
 * the change as JSON, with the operator and the reason. Older entries stay for as long as charges of their time count.
 */
export type OverrideRecord = string;

/** The id that marks the revision of a client change. No policy has this id. */
export const CLIENT_CHANGE_ID = '*';

/** An id without limits in any entry. */
export const UNFOUND_ID = '-';

/** The id by which the records of overrides have the limits of a policy. */
export function recordIdOf({ id, isFixed, isHidden }: CompiledPolicy): string {
  return isFixed || isHidden ? UNFOUND_ID : id;
}

/** The beginning of the revision of a change to another tier. No hash contains it. */
export const TIER_PREFIX = 'tier=';

/**
 * The beginning of a revision that identifies a change of limits alone. A caller asks with it while a client change of all keys is in force,
 * because the client change has no effect on the policies that a key's own override names.
 */
export const LIMITS_PREFIX = '=';

/** The revision of a record that cannot be read. The configured limits stay in force, and the caller reports it. */
export const UNREADABLE = '!';

/** The most characters of such a record in a report. */
const MAX_REPORTED = 200;

export const OVERRIDE_TAG = 'o1';

export const MAX_ENTRIES_PER_RECORD = 8;

/** The time for which a record without an end is kept, ms: a hundred years. */
export const UNENDED_RECORD_MS = 100 * 365 * 24 * 60 * 60 * 1000;

/**
 * The text of an entry without its times.
 *
 * @param limits the limits by policy id, or the revision of a client change
 * @param json the change, the operator and the reason
 */
export function entryText(limits: ReadonlyMap<string, readonly number[] | string>, json: string): string {
  const fields = [...limits].map(([id, field]) => {
    return `\t${id}\t${typeof field === 'string' ? field : field.join(' ')}`;
  });
  return `${fields.join('')}\t${json}`;
}

/** A change of the record of overrides of a key, or of all keys. */
export interface RecordChange {
  /** An entry without its times, or an empty text to end the override in force. */
  readonly entry: string;
  /** The duration, ms, or 0 for an override without an end. */
  readonly duration: number;
  /** The longest time for which a charge counts, ms. */
  readonly life: number;
  /** The longest time for which the debt of a bucket lasts after the change, ms. The rate may become lower. @default 0 */
  readonly debtLife?: number;
  /** The operator who ends an override, and the reason. A new entry contains both. */
  readonly note?: ChangeNoteOptions;
  /** The interface by which an operator makes the change, for the log. Absent for a method of a limiter. */
  readonly from?: 'admin' | 'cli';
  /** The id of the logged change that this one undoes. */
  readonly undoes?: string;
  /** Receives the reason if the change is in force, but could not be recorded for operators. Without this function, the process warns. */
  readonly onUnnoted?: (error: Error) => void;
}

/** Applies a change to a record. @returns the record, and the end of its use. The script `set-override.lua` does the same. */
export function changeRecord(
  record: OverrideRecord,
  { entry, duration, life }: RecordChange,
  now: number,
): { readonly record: OverrideRecord; readonly until: number } {
  const texts = record.split('\n').filter((text) => text !== '');
  const kept: string[] = [];
  let last = 0;
  for (const text of texts) {
    const [times, since, until, rest] = /^(\d+) (\d+)(.*)$/s.exec(text) ?? [];
    if (times === undefined) continue;
    // Keeps an entry that begins and ends in the same millisecond, because charges in the millisecond may be by the entry.
    if (Number(since) > now) continue;
    const end = until === '0' ? now : Math.min(now, Number(until));
    if (end + life <= now || kept.length === MAX_ENTRIES_PER_RECORD - 1) continue;
    kept.push(`${since} ${end}${rest}`);
    last = Math.max(last, end + life);
  }
  if (entry !== '') {
    const end = duration === 0 ? 0 : now + duration;
    kept.unshift(`${now} ${end}${entry}`);
    last = Math.max(last, duration === 0 ? now + UNENDED_RECORD_MS : end + life);
  }
  return { record: kept.join('\n'), until: last };
}

export interface OverrideEntry {
  /** ms since the epoch, by the store's clock. */
  readonly since: number;
  /** `Infinity` if the end is not known. */
  readonly until: number;
  /** By policy id: the limit, then the params that differ. */
  readonly limits: ReadonlyMap<string, readonly number[]>;
  /** The revision of a client change. Empty for every other change. */
  readonly revision: string;
  /** The change, the operator and the reason. */
  readonly json: string;
  /** Whether the limits of a policy cannot be read. */
  readonly isDamaged: boolean;
}

/** The entries of a record, and policies as the entries change them. */
class ParsedRecord {
  readonly #record: OverrideRecord;
  readonly #entries: readonly OverrideEntry[];

  constructor(record: OverrideRecord) {
    this.#record = record;
    this.#entries = record.split('\n').flatMap(parseEntry);
  }

  /**
   * The entry in force at a time, or for a policy if an id is given. The newest entry comes first, so a key's own entry takes precedence
   * over the entries of all keys, which follow.
   */
  at(time: number, id?: string): OverrideEntry | undefined {
    return this.#entries.find((entry) => entry.since <= time && time < entry.until && concerns(entry, id));
  }

  /** The entry in force now. If the clock went back, the newest entry stays in force. */
  now(time: number, id?: string): OverrideEntry | undefined {
    const [newest] = this.#entries;
    const isAhead = newest && newest.since > time && time < newest.until && concerns(newest, id);
    return isAhead ? newest : this.at(time, id);
  }

  /** The entry in force now; or, if it cannot be read, an entry that only says so. The script `overrides.lua` does the same. */
  readable(time: number): OverrideEntry | undefined {
    const entry = this.now(time);
    if (entry ? !entry.isDamaged : !isDamaged(this.#record)) return entry;
    const json = this.#record.replace(/[\t\n]/g, ' ').slice(0, MAX_REPORTED);
    return { since: 0, until: Infinity, limits: new Map(), revision: UNREADABLE, json, isDamaged: true };
  }

  entries(policies: readonly CompiledPolicy[], now: number): readonly (OverrideEntry | undefined)[] {
    return policies.map((policy) => this.now(now, recordIdOf(policy)));
  }

  /** The policies changed by the entries. */
  policies(
    configured: readonly CompiledPolicy[],
    entries: readonly (OverrideEntry | undefined)[],
  ): readonly CompiledPolicy[] {
    return configured.map((policy, i) => this.#change(policy, entries[i]));
  }

  /** The time around now in which no entry begins or ends. */
  span(now: number): { readonly from: number; readonly until: number } {
    const times = this.#boundaries(-Infinity, Infinity);
    const from = times.findLast((time) => time <= now) ?? -Infinity;
    return { from, until: times.find((time) => time > now) ?? Infinity };
  }

  /** The last time up to now at which an entry began or ended, or 0. */
  changedAt(now: number): number {
    return Math.max(0, ...this.#boundaries(0, now));
  }

  #change(policy: CompiledPolicy, entry: OverrideEntry | undefined): CompiledPolicy {
    const id = recordIdOf(policy);
    const limits = entry?.limits.get(id);
    if (!policy.traits.drains) {
      if (!limits) return policy;
      const [limit] = limits as [number];
      const { sent } = policy;
      const moved = sent && { sent: (time: number) => [limit, ...sent(time).slice(1)] };
      return { ...policy, limit, params: paramsOf(policy, limits), ...moved };
    }
    const rates: Rates = {
      at: (time) => paramsOf(policy, this.at(time, id)?.limits.get(id)),
      around: (time) => this.#around(time, id).map((each) => paramsOf(policy, each?.limits.get(id))),
      boundaries: (from, to) => this.#boundaries(from, to),
      base: policy.params,
    };
    // Stores receive only the numbers as params. The rates are for the columns of this process.
    const params = { ...paramsOf(policy, limits), rates } as unknown as Params;
    return { ...policy, limit: limits?.[0] ?? policy.limit, params };
  }

  /** All entries that may have been in force within a millisecond. */
  #around(time: number, id: string): (OverrideEntry | undefined)[] {
    const entries = this.#entries.filter(({ since, until }) => since <= time && time <= until);
    return [...entries, this.at(time, id), this.at(time - 1, id)];
  }

  #boundaries(from: number, to: number): number[] {
    const times = new Set(this.#entries.flatMap(({ since, until }) => [since, until]));
    return [...times].filter((time) => time > from && time <= to).sort((a, b) => a - b);
  }
}

/** Whether an entry concerns a policy. If not, the entries behind it decide about the policy. */
function concerns({ revision, limits }: OverrideEntry, id: string | undefined): boolean {
  return id === undefined || revision.startsWith(TIER_PREFIX) || limits.has(id);
}

function paramsOf({ params }: CompiledPolicy, limits: readonly number[] | undefined): Params {
  if (!limits) return params;
  const names = Object.keys(params);
  const changed = limits.length === 1 ? limits : limits.slice(1);
  return { ...params, ...Object.fromEntries(changed.map((number, i) => [names[i]!, number])) };
}

/** Whether a field consists of numbers, of which the first is a limit. A field that Headgate did not write changes nothing. */
function isLimits(field: string): boolean {
  const [limit] = field.split(' ').map(Number);
  return /^\d+( \d+)*$/.test(field) && limit! >= 1 && limit! <= MAX_UNITS;
}

/** @returns an array with the entry, or an empty array if the text is not an entry */
function parseEntry(text: string): OverrideEntry[] {
  const [times = '', ...fields] = text.split('\t');
  const [since, until] = times.split(' ').map(Number);
  if (since === undefined || until === undefined || Number.isNaN(since + until) || fields.length === 0)
    return [];
  const json = fields.pop()!;
  const limits = new Map<string, readonly number[]>();
  let revision = '';
  let isDamaged = fields.length === 0;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (fields[i] === CLIENT_CHANGE_ID) revision = fields[i + 1]!;
    else if (isLimits(fields[i + 1]!)) limits.set(fields[i]!, fields[i + 1]!.split(' ').map(Number));
    else isDamaged = true;
  }
  return [{ since, until: until === 0 ? Infinity : until, limits, revision, json, isDamaged }];
}

const MAX_PARSED_RECORDS = 1000;

/** Parses a record. Recent records are remembered. */
export const parseRecord = memo(MAX_PARSED_RECORDS, (record: OverrideRecord) => new ParsedRecord(record));

/** The entry in force by a record in a store. @returns undefined without such an entry, or without a record */
export function entryInForce(record: unknown, now: number): OverrideEntry | undefined {
  return typeof record === 'string' ? parseRecord(record).now(now) : undefined;
}

/** The last time up to now at which an override of a record in a store began or ended, ms since the epoch, or 0. */
export function lastChangeIn(record: unknown, now: number): number {
  return typeof record === 'string' ? parseRecord(record).changedAt(now) : 0;
}

/** Whether a part of a record was not written by a limiter. An entry without its times changes nothing. */
export function isDamaged(record: unknown): boolean {
  return (
    typeof record === 'string' &&
    record.split('\n').some((text) => text !== '' && parseEntry(text).length === 0)
  );
}

/** The change as the operator passed it, the operator, and the reason. */
export interface EntryNote extends ChangeNoteOptions {
  readonly change: unknown;
}

/** Parses the JSON of an entry. @returns undefined if a limiter did not write it */
export function parseEntryNote(json: string): EntryNote | undefined {
  try {
    const note: unknown = JSON.parse(json);
    return typeof note === 'object' && note !== null && 'change' in note ? note : undefined;
  } catch {
    return undefined;
  }
}

/** The overrides that a caller has already applied to the policies of a question. */
export interface AppliedOverrides {
  /** By dimension, the revision of the client change that the policies already include. */
  readonly revisions: Readonly<Record<string, string>>;
  /** The record of all keys, for buckets, which is weaker than a key's own record. */
  readonly all: OverrideRecord;
  /** Of a look at the policies behind the end of an override: that end, before which no policy counts as admitting, ms since the epoch. */
  readonly from?: number;
}

/** The text of a dimension, or ''. A dimension may have the name of a member of every object, such as `constructor`. */
export function textOfDimension(texts: Readonly<Record<string, string>>, dimension: string): string {
  return Object.hasOwn(texts, dimension) ? texts[dimension]! : '';
}

/** The policies are as configured: no override is applied. */
export const AS_CONFIGURED: AppliedOverrides = Object.freeze({ revisions: Object.freeze({}), all: '' });

/** Whether there is no known override for the store to apply. An override of all keys may already be part of the policies. */
export function isAsConfigured({ all, revisions }: AppliedOverrides): boolean {
  return all === '' && Object.keys(revisions).length === 0;
}

/** The dimensions with a record for a set: the dimensions of the set's policies. */
export function recordDimensions({ policies }: { readonly policies: readonly CompiledPolicy[] }): string[] {
  return [...new Set(policies.map(({ by }) => by))];
}

export interface OverrideRules<Set> {
  /** Absent if the limiter has no overrides, so that no record is read. */
  readonly overrides?: (AppliedOverrides & Later<Set>) | undefined;
}

/** The set that follows at the next end of an override which the caller applies. Absent if no such override ends by itself. */
interface Later<Set> {
  readonly later?: { readonly at: number; readonly set: () => Set };
}

export interface OverrideReply {
  /** The limit of each policy. Set if an override changes a limit. */
  readonly limits?: readonly number[];
  /**
   * Set, and nothing decided, if an override contains a change that the store cannot apply, such as another tier. By dimension: the
   * change's revision, the change as JSON, its end, and the ids of policies (see `clientChangeOf`), or an empty text for no change. The caller asks again with a
   * set whose `overrides.revisions` are the same revisions.
   */
  readonly clientChanges?: Readonly<Record<string, string>>;
}

export interface OverrideUsage {
  /** The record of overrides of each dimension, empty if there is none. Without dimensions if the set has no overrides. */
  readonly records: Readonly<Record<string, OverrideRecord>>;
}
