import { NO_NOTE, type ChangeNote } from '../../contract/change-note.js';
import { setsByDimension, type DimensionSet } from '../../contract/dimension-sets.js';
import type { RecordChange } from '../../contract/overrides.js';
import { bannedChange, forgottenBy, hasBan, setBan, struckChange } from '../../features/bans/ban-steps.js';
import { loggedChange } from '../../features/overrides/log-entry.js';
import {
  changeAmong,
  ownerOfRecord,
  recordAmong,
  type OverrideStates,
} from '../../features/overrides/state-record.js';
import { StateCrossings } from '../../features/thresholds/crossing-reports.js';
import type { ChangeReply, Reply, UsageReply } from '../../contract/reply.js';
import type { ChargeChange, LeaseChange, PolicySet, Query, Subject } from '../../contract/store.js';
import { resetChange, type JournalEntry as LogChange, type LoggedChange } from '../journal.js';
import { ownerText } from '../keys.js';
import { adjust, lease, reset } from './changes.js';
import { decide, usage } from './evaluate.js';
import { KeyRecord, type StateChange, type TextChange } from './key-record.js';
import { RecordPlace } from './record-place.js';
import type { Place } from '../../features/feature.js';
import type { StoredState } from './saved-state.js';
import { severalKeys } from './state-keys.js';

/** The states of one or more keys, which change together. */
export abstract class States implements OverrideStates {
  readonly #records: readonly KeyRecord[];
  /** The changes to log, by the index of their record. */
  #logs: LoggedChange[][] | undefined;
  readonly #crossings = new StateCrossings();
  /** The time of the change, ms since the epoch. */
  readonly now: number;

  /**
   * @param states the states that `save` returned, for each key, or undefined for a key without state. Any others count as no state
   * @param now by the store's clock, whole ms since the epoch
   */
  constructor(states: readonly StoredState[], now: number) {
    this.#records = states.map((each) => new KeyRecord(each, now));
    this.now = now;
  }

  /** Like `Store.decide`. */
  decide(query: Query): Reply {
    const reply = decide(this.#places(query), query, this.now, this.#nextStep());
    if (reply.ban < 0) this.#struck(query, reply);
    return this.#crossings.addedTo(reply, query, this.now);
  }

  /** Logs a ban by denials, and forgets the charges that the ban forgets. */
  #struck(query: Query, reply: Reply): void {
    this.#log(query, hasBan, (owner) => struckChange(owner, query.set, reply));
    const charges = forgottenBy(query);
    if (!charges) return;
    const record = this.#records[setsByDimension(query.set).findIndex(hasBan)]!;
    const parts = setsByDimension(charges.set);
    const places = parts.map((part) => new RecordPlace(record, part, this.#crossings.current, undefined));
    reset(places, charges, this.now, reply.step);
  }

  /** Like `Store.adjust`. */
  adjust(change: ChargeChange): ChangeReply {
    const reply = adjust(this.#places(change), change, this.now, this.#nextStep());
    return this.#crossings.addedTo(reply, change, this.now);
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
  ban(subject: Subject, duration: number, note: ChangeNote = NO_NOTE, isLogged = true): void {
    const left = setBan(this.#places(subject), duration, this.now);
    if (isLogged) this.#log(subject, hasBan, (owner) => bannedChange(owner, duration, left, note));
  }

  /** Like `Store.usage`. */
  usage(subject: Subject): UsageReply {
    return usage(this.#places(subject), subject, this.now, this.#nextStep());
  }

  /** Like `OverrideStore.read`, for the key of a dimension. */
  overridesOf({ set }: Subject, by: string): string {
    return recordAmong(this.#recordOf(set, by).entries);
  }

  /** Like `OverrideStore.change`, for the key of a dimension. */
  override(subject: Subject, by: string, change: RecordChange): void {
    const { entries } = this.#recordOf(subject.set, by);
    const changed = subject.set.policies.filter((policy) => policy.by === by);
    const before = changeAmong(entries, change, changed, this.now);
    this.#log(
      subject,
      ({ name }) => name === by,
      (owner) => loggedChange(ownerOfRecord(subject, owner), change, before, this.now),
    );
  }

  /** Logs a change of some parts of a subject. */
  #log(
    { set, key }: Subject,
    isOf: (part: DimensionSet) => boolean,
    make: (owner: string) => LogChange | undefined,
  ): void {
    for (const [i, part] of setsByDimension(set).entries()) {
      const change = isOf(part) ? make(ownerText(set, key, part.name)) : undefined;
      if (change) ((this.#logs ??= [])[i] ??= []).push({ ...change, at: this.now });
    }
  }

  #recordOf(set: PolicySet, by: string): KeyRecord {
    return this.#records[setsByDimension(set).findIndex(({ name }) => name === by)]!;
  }

  /** @internal The change that must be written under each key. */
  protected saveAll(): TextChange[] {
    return this.#records.map((record, i) => {
      const log = this.#logs?.[i];
      const saved = record.save();
      return this.#crossings.addedToChange(log ? { ...saved, log } : saved, i);
    });
  }

  #places({ set }: Subject): Place[] {
    const parts = setsByDimension(set);
    if (parts.length > this.#records.length || parts.length + 1 < this.#records.length)
      throw severalKeys('KeyState', 'JointState with the bytes of each of stateKeys');
    // The state of an id follows the states of the keys.
    const id = this.#records[parts.length];
    return parts.map((part, i) => new RecordPlace(this.#records[i]!, part, this.#crossings.current, id));
  }

  /** All keys get the same step, because a charge to all of them is returned by a single step. */
  #nextStep(): number {
    let step = 0;
    for (const record of this.#records) step = Math.max(step, record.nextStep());
    if (this.#records.length > 1) for (const record of this.#records) record.nextStep(step);
    return step;
  }
}

/** The states of a subject's keys, in the order of {@link stateKeys}, which change together. It has the methods of a {@link KeyState}. */
export class JointState extends States {
  /**
   * @param bytes the bytes that `save` returned, for each key, or undefined for a key without state. Any other bytes count as no state
   * @param now by the store's clock, whole ms since the epoch
   */
  constructor(bytes: readonly (Uint8Array | undefined)[], now: number) {
    super(bytes, now);
  }

  /** The change that must be written under each key. */
  save(): StateChange[] {
    return this.saveAll();
  }
}

/** The same in a store, which may keep texts. */
export class StoredStates extends States {
  save(): TextChange[] {
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
