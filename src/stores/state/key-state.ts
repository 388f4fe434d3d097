import { createHash } from 'node:crypto';
import { BanColumn } from '../../algorithms/ban.js';
import { kernels, type Column } from '../../algorithms/index.js';
import type { CompiledBan } from '../../algorithms/ban.js';
import { HeadgateError } from '../../common/errors.js';
import {
  changeRecord,
  OVERRIDE_TAG,
  type OverrideRecord,
  type RecordChange,
} from '../../contract/overrides.js';
import { partsOf, type Part } from '../../contract/parts.js';
import { takeCrossings, type Crossing } from '../../contract/thresholds.js';
import { idText } from '../../contract/request-ids.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { adjust, ban, lease, reset } from './changes.js';
import { decide, usage } from './evaluate.js';
import { overriddenBy } from './overrides.js';
import type { Place } from './place.js';
import {
  bannedChange,
  overrideChange,
  resetChange,
  struckChange,
  type Change as LogChange,
  type LoggedChange,
} from '../journal.js';
import { ALL_KEYS, escapeKey, escapeName, hashedText, ID_TAG, ownerText, THRESHOLD_TAG } from '../keys.js';
import { storedCrossing, type StoredCrossing } from '../crossings.js';
import { NO_NOTE, type BanNote } from '../../contract/ban-options.js';
import { claims, decideOnce, type IdPlace, type IdRecord } from './request-ids.js';
import { History } from './returns.js';
import type { Mark } from './thresholds.js';
import {
  encode,
  LAYOUT_VERSION,
  NO_ENTRY,
  parse,
  type Entries,
  type Entry,
  type SavedState,
} from './saved-state.js';
import {
  stepAfter,
  type Change,
  type ChangeReply,
  type LeaseChange,
  type PolicySet,
  type Query,
  type Reply,
  type Subject,
  type UsageReply,
} from '../../contract/store.js';

/** The time for which an expired state is kept, ms, in case the clock goes back. */
export const EXPIRED_STATE_LIFE_MS = 60_000;

/** Texts that are used as keys directly. All others are hashed: databases may refuse or confuse non-ASCII or long keys. */
const PLAIN_KEY = /^[\x21-\x7e]{1,296}$/;

/**
 * The key under which a store keeps the state of a subject of one dimension: printable ASCII, at most 300 characters. Only subjects that
 * share their state have the same key. Case matters in keys, so compare them byte by byte.
 *
 * @throws HeadgateError `HEADGATE_DIMENSIONS` if the subject has keys of several dimensions: see {@link stateKeys}
 */
export function stateKey(subject: Subject): string {
  const [key, ...more] = stateKeys(subject);
  if (key !== undefined && more.length === 0) return key;
  throw severalKeys('stateKey', 'stateKeys');
}

function severalKeys(used: string, instead: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_DIMENSIONS',
    `${used}: this subject has keys of several dimensions. Use ${instead}, and change their states together.`,
  );
}

/** The keys of a subject with keys of several dimensions, one for each part of its state. */
export function stateKeys({ set, key }: Subject): string[] {
  return partsOf(set).map((part) => `{${plain(ownerText(set, key, part.name, asciiKey))}}${LAYOUT_VERSION}`);
}

/** The key of a request's id, which has a state of its own. Its length is bounded, as all of {@link stateKeys}. */
export function idKey({ set, key }: Subject, id: string): string {
  const [{ name }] = partsOf(set) as [Part];
  return `{${plain(`${ownerText(set, key, name, asciiKey)}}${ID_TAG}${idText(id)}`)}}${LAYOUT_VERSION}`;
}

/** The notation of a key. A key that is not ASCII is hashed alone, so that its limiter and its dimension stay readable. */
function asciiKey(key: string): string {
  return plain(escapeKey(key));
}

/** Hashes texts that cannot be keys. No other key begins with a hash without a colon. */
function plain(who: string): string {
  return PLAIN_KEY.test(who) ? who : hashedText(createHash('sha256').update(who).digest('base64url'));
}

/** The change that a store must write. */
export interface StateChange {
  /** Whether there is anything to write. A denial, for example, changes nothing. */
  readonly changed: boolean;
  /** The new state. Undefined if the state is empty, so that the key can be deleted. */
  readonly bytes: Uint8Array | undefined;
  /** The time at which the state expires and the key can be deleted, by the store's clock, ms since the epoch. */
  readonly expiresAt: number;
  /** Changes for a log that operators read. Absent if there are none. A store without such a log ignores them. */
  readonly log?: readonly LoggedChange[];
  /** Crossings of thresholds for a stream. Absent if there are none. A store without such a stream ignores them. */
  readonly crossings?: readonly StoredCrossing[];
}

/** The state of one key. */
class KeyRecord {
  #step = 0;
  /** The bytes of the loaded state, to detect changes. */
  readonly #before: string;
  /** The loaded state of each policy. `#columns` has the current state of the used policies. */
  readonly #states: Map<string, Entry>;
  readonly #columns = new Map<string, Column>();
  readonly #bans = new BanColumn();
  readonly #bannedUntil: number;
  #ban: CompiledBan | undefined;
  readonly #histories = new Map<string, History>();
  readonly #now: number;

  constructor(bytes: Uint8Array | undefined, now: number) {
    const { step, saved } = parse(bytes);
    const [[bannedUntil, ...ban], states, histories] = saved;
    this.#now = now;
    this.#step = step;
    this.#bannedUntil = bannedUntil;
    this.#bans.load(1, ban);
    this.#states = new Map(states);
    for (const [id, [until, ...saved]] of histories) this.#open(id, until).load(saved);
    this.#before = this.#text();
  }

  /** The change that must be written. */
  save(): StateChange {
    const text = this.#text();
    const [[bannedUntil], states, histories] = this.#current();
    const expiresAt = Math.max(bannedUntil, ...[...states, ...histories].map(([, [until]]) => until));
    const bytes = expiresAt === 0 ? undefined : encode(this.#step, text);
    return { changed: text !== this.#before, bytes, expiresAt };
  }

  nextStep(step = stepAfter(this.#step, this.#now)): number {
    return (this.#step = step);
  }

  /** The record of the key's overrides, or an empty text. */
  get overrides(): OverrideRecord {
    const [, record] = this.#states.get(OVERRIDE_TAG) ?? NO_ENTRY;
    return typeof record === 'string' ? record : '';
  }

  /** The rest of the key's ban, ms, or 0. */
  bannedFor(ban: CompiledBan): number {
    return this.#bans.look(1, ban, this.#now, false);
  }

  override(change: RecordChange): void {
    const { record, until } = changeRecord(this.overrides, change, this.#now);
    this.#states.set(OVERRIDE_TAG, [record === '' ? 0 : until, record]);
  }

  /** The record of an id, if this is the state of an id. */
  get id(): IdPlace {
    return {
      read: () => {
        const [, text] = this.#states.get(ID_TAG) ?? NO_ENTRY;
        return typeof text === 'string' ? (JSON.parse(text) as IdRecord) : undefined;
      },
      write: (record, until) => this.#states.set(ID_TAG, [until, JSON.stringify(record)]),
    };
  }

  /** @param crossings receives the crossings of thresholds */
  place(part: Part, crossings: Crossing[]): Place {
    this.#ban ??= part.set.ban;
    const { overrides: applied } = part.set;
    return {
      part,
      ...overriddenBy(applied ? this.overrides : '', applied?.all ?? '', part.set, this.#now),
      columns: part.set.policies.map((policy) => this.#column(policy)),
      bans: this.#bans,
      row: 1,
      returns: {
        find: (policy) => this.#histories.get(policy),
        open: (policy, _key, now, life) => this.#open(policy, now + life),
      },
      marks: {
        read: (policy) => this.#states.get(THRESHOLD_TAG + policy) as Mark | undefined,
        write: (policy, mark) => this.#states.set(THRESHOLD_TAG + policy, mark),
        crossings,
      },
      // Nothing is left to do, because each key has row 1 from the start.
      create: () => {},
      isFull: () => false,
      full: () => 0,
      deny: () => {},
    };
  }

  #column({ id, kernel, params }: CompiledPolicy): Column {
    let column = this.#columns.get(id);
    if (!column) {
      column = kernels[kernel].createColumn(1, params);
      const [until, ...saved] = this.#states.get(id) ?? NO_ENTRY;
      if (until > 0) column.load(1, saved);
      else this.#states.set(id, NO_ENTRY);
      this.#columns.set(id, column);
    }
    return column;
  }

  #open(policy: string, until: number): History {
    const history = this.#histories.get(policy) ?? new History();
    history.until = until;
    this.#histories.set(policy, history);
    return history;
  }

  #current(): SavedState {
    const bannedUntil = this.#ban ? this.#bans.until(1, this.#ban) : this.#bannedUntil;
    const states = [...this.#states].map(([id, entry]): Entries[number] => {
      const column = this.#columns.get(id);
      return [id, column ? [column.until(1), ...column.save(1)] : entry];
    });
    const histories = [...this.#histories].map(([id, history]): Entries[number] => {
      return [id, [history.until, ...history.save()]];
    });
    const isKept = ([until]: Entry): boolean => until > 0 && until + EXPIRED_STATE_LIFE_MS > this.#now;
    const ban: Entry = [bannedUntil, ...this.#bans.save(1)];
    return [
      isKept(ban) ? ban : NO_ENTRY,
      states.filter(([, entry]) => isKept(entry)),
      histories.filter(([, entry]) => isKept(entry)),
    ];
  }

  #text(): string {
    return JSON.stringify(this.#current());
  }
}

/** Whether the ban of a set is part of the state of a part. */
const banned = ({ set }: Part): boolean => set.ban !== undefined;

/** The states of one or more keys, which change together. */
abstract class States {
  readonly #records: readonly KeyRecord[];
  /** The changes to log, by the index of their record. */
  readonly #logs: LoggedChange[][] = [];
  /** The crossings for a stream, by the index of their record. */
  readonly #stored: StoredCrossing[][] = [];
  /** The crossings of thresholds by the current question. */
  readonly #crossings: Crossing[] = [];
  /** The time of the change. */
  readonly now: number;

  /**
   * @param bytes the bytes that `save` returned, for each key, or undefined for a key without state. Any other bytes count as no state
   * @param now by the store's clock, whole ms since the epoch
   */
  constructor(bytes: readonly (Uint8Array | undefined)[], now: number) {
    this.#records = bytes.map((each) => new KeyRecord(each, now));
    this.now = now;
  }

  /** Like `Store.decide`. */
  decide(query: Query): Reply {
    const [places, step] = [this.#places(query), this.#nextStep()];
    const id = query.id === undefined ? undefined : this.#idAfter(places);
    const reply = id ? decideOnce(id, places, query, this.now, step) : decide(places, query, this.now, step);
    if (reply.ban < 0) this.#log(query, banned, (owner) => struckChange(owner, -reply.ban));
    return this.#withCrossings(query, reply);
  }

  /** Like `Store.adjust`. */
  adjust(change: Change): ChangeReply {
    const { claim, set, units } = change;
    const [places, step] = [this.#places(change), this.#nextStep()];
    const id = claim && this.#idAfter(places);
    const isVoid = id && !claims(id, claim, set, this.now);
    const made = isVoid ? { ...change, units: units.map(() => 0) } : change;
    return this.#withCrossings(change, adjust(places, made, this.now, step));
  }

  #withCrossings<T extends Reply>(subject: Subject, reply: T): T {
    const crossings = takeCrossings(this.#crossings);
    for (const crossing of crossings) {
      const i = partsOf(subject.set).findIndex(({ at }) => at.includes(crossing.at));
      (this.#stored[i] ??= []).push(storedCrossing(subject, crossing, this.now));
    }
    return crossings.length > 0 ? { ...reply, crossings } : reply;
  }

  /** Like `Store.lease`. */
  lease(change: LeaseChange): boolean {
    return lease(this.#places(change), change, this.now);
  }

  /** Like `Store.reset`. */
  reset(subject: Subject, isLogged = true): void {
    reset(this.#places(subject), subject, this.now, this.#nextStep());
    if (isLogged) this.#log(subject, () => true, resetChange);
  }

  /** Like `Store.ban`. */
  ban(subject: Subject, duration: number, note: BanNote = NO_NOTE, isLogged = true): void {
    const places = this.#places(subject);
    const left = this.#records[partsOf(subject.set).findIndex(banned)]!.bannedFor(subject.set.ban!);
    ban(places, duration, this.now);
    if (isLogged) this.#log(subject, banned, (owner) => bannedChange(owner, duration, left, note));
  }

  /** Like `Store.usage`. */
  usage(subject: Subject): UsageReply {
    return usage(this.#places(subject), subject.set, this.now, this.#nextStep());
  }

  /** Like `OverrideStore.read`, for the key of a dimension. */
  overridesOf({ set }: Subject, by: string): OverrideRecord {
    return this.#recordOf(set, by).overrides;
  }

  /** Like `OverrideStore.change`, for the key of a dimension. */
  override(subject: Subject, by: string, change: RecordChange): void {
    const record = this.#recordOf(subject.set, by);
    const before = record.overrides;
    record.override(change);
    // The record of all keys belongs to a subject without a scope, whose key is the limiter's name.
    const ofAll = subject.set.name === '' ? `${escapeName(subject.key as string)}:${ALL_KEYS}` : undefined;
    this.#log(
      subject,
      ({ name }) => name === by,
      (owner) => overrideChange(ofAll ?? owner, change, before, this.now),
    );
  }

  /** Logs a change of some parts of a subject. */
  #log(
    { set, key }: Subject,
    isOf: (part: Part) => boolean,
    make: (owner: string) => LogChange | undefined,
  ): void {
    for (const [i, part] of partsOf(set).entries()) {
      const change = isOf(part) ? make(ownerText(set, key, part.name)) : undefined;
      if (change) (this.#logs[i] ??= []).push({ ...change, at: this.now });
    }
  }

  #recordOf(set: PolicySet, by: string): KeyRecord {
    return this.#records[partsOf(set).findIndex(({ name }) => name === by)]!;
  }

  /** The change that must be written under each key. */
  protected saveAll(): StateChange[] {
    return this.#records.map((record, i) => {
      const log = this.#logs[i];
      const crossings = this.#stored[i];
      return { ...record.save(), ...(log && { log }), ...(crossings && { crossings }) };
    });
  }

  #places({ set }: Subject): Place[] {
    const parts = partsOf(set);
    if (parts.length > this.#records.length || parts.length + 1 < this.#records.length)
      throw severalKeys('KeyState', 'JointState with the bytes of each of stateKeys');
    return parts.map((part, i) => this.#records[i]!.place(part, this.#crossings));
  }

  /** The record of an id, whose state follows the states of the keys. */
  #idAfter({ length }: readonly Place[]): IdPlace | undefined {
    return this.#records[length]?.id;
  }

  /** All keys get the same step, because a charge to all of them is returned by a single step. */
  #nextStep(): number {
    const step = Math.max(...this.#records.map((record) => record.nextStep()));
    for (const record of this.#records) record.nextStep(step);
    return step;
  }
}

/** The states of a subject's keys, in the order of {@link stateKeys}, which change together. It has the methods of a {@link KeyState}. */
export class JointState extends States {
  /** The change that must be written under each key. */
  save(): StateChange[] {
    return this.saveAll();
  }
}

/**
 * All state of one key, for a store that keeps it as bytes: policies, bans, leases, and the data for returns. It decides like the memory
 * store. It has the methods of a store, but no clock: every call happens at `now`.
 *
 * @example const state = new KeyState(await read(stateKey(query)), now); const reply = state.decide(query); const { changed, bytes,
 * expiresAt } = state.save();
 */
export class KeyState extends States {
  /**
   * @param bytes the bytes that `save` returned, or undefined for a key without state. Any other bytes count as no state
   * @param now by the store's clock, whole ms since the epoch
   */
  constructor(bytes: Uint8Array | undefined, now: number) {
    super([bytes], now);
  }

  /** The change that must be written. */
  save(): StateChange {
    return this.saveAll()[0]!;
  }
}
