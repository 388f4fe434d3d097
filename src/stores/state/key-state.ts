import { NO_NOTE, type BanNote } from '../../contract/ban-options.js';
import type { OverrideRecord, RecordChange } from '../../contract/overrides.js';
import { partsOf, type Part } from '../../contract/parts.js';
import type { Crossing } from '../../contract/crossing.js';
import { takeCrossings } from '../../contract/thresholds.js';
import type { ChangeReply, Reply, UsageReply } from '../../contract/reply.js';
import type { Change, LeaseChange, PolicySet, Query, Subject } from '../../contract/store.js';
import { storedCrossing, type StoredCrossing } from '../crossings.js';
import {
  bannedChange,
  overrideChange,
  resetChange,
  struckChange,
  type Change as LogChange,
  type LoggedChange,
} from '../journal.js';
import { ALL_KEYS, escapeName, ownerText } from '../keys.js';
import { adjust, ban, lease, reset } from './changes.js';
import { decide, usage } from './evaluate.js';
import { KeyRecord, type StateChange } from './key-record.js';
import type { Place } from './place.js';
import { claims, decideOnce, type IdPlace } from './request-ids.js';
import { severalKeys } from './state-keys.js';

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
    return usage(this.#places(subject), subject, this.now, this.#nextStep());
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
