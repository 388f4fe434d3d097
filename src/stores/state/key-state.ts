import { setsByDimension } from '../../contract/dimension-sets.js';
import type { RecordChange } from '../../features/overrides/contract/records.js';
import { loggedChange } from '../../features/overrides/log-entry.js';
import {
  changeAmong,
  ownerOfRecord,
  recordAmong,
  type OverrideStates,
} from '../../features/overrides/state-record.js';
import { StateCrossings } from '../../features/thresholds/crossing-reports.js';
import type { ChangeReply, Reply } from '../../contract/reply.js';
import type { ChargeChange, PolicySet, Query, Subject } from '../../contract/store.js';
import type { JournalEntry, LoggedChange } from '../journal.js';
import { adjust } from './changes.js';
import { decide } from './evaluate.js';
import { KeyRecord, type StateChange, type TextChange } from './key-record.js';
import { PlaceOperations } from './place-operations.js';
import { RecordPlace } from './record-place.js';
import type { Place } from '../../features/feature.js';
import type { StoredState } from './saved-state.js';
import { severalKeys } from './state-keys.js';

/** The states of one or more keys, which change together. */
export abstract class States extends PlaceOperations implements OverrideStates {
  readonly #records: readonly KeyRecord[];
  /** The changes to log, by the index of their record. */
  #logs: LoggedChange[][] | undefined;
  readonly #events = new StateCrossings();
  /** The time of the change, ms since the epoch. */
  readonly now: number;

  /**
   * @param states the states that `save` returned, for each key, or undefined for a key without state. Any others count as no state
   * @param now by the store's clock, whole ms since the epoch
   */
  constructor(states: readonly StoredState[], now: number) {
    super();
    this.#records = states.map((each) => new KeyRecord(each, now));
    this.now = now;
  }

  /** Like `Store.decide`. */
  decide(query: Query): Reply {
    const reply = decide(this.places(query), query, this.now, this.step());
    if (reply.ban < 0) this.struck(query, reply, this.now);
    return this.#events.addedTo(reply, query, this.now);
  }

  /** Like `Store.adjust`. */
  adjust(change: ChargeChange): ChangeReply {
    const reply = adjust(this.places(change), change, this.now, this.step());
    return this.#events.addedTo(reply, change, this.now);
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
    this.logParts(
      subject,
      ({ name }) => name === by,
      (owner) => loggedChange(ownerOfRecord(subject, owner), change, before, this.now),
      this.now,
    );
  }

  #recordOf(set: PolicySet, by: string): KeyRecord {
    return this.#records[setsByDimension(set).findIndex(({ name }) => name === by)]!;
  }

  /** @internal The change that must be written under each key. */
  protected saveAll(): TextChange[] {
    return this.#records.map((record, i) => {
      const log = this.#logs?.[i];
      const saved = record.save();
      return this.#events.addedToChange(log ? { ...saved, log } : saved, i);
    });
  }

  /** @internal */
  protected time(): number {
    return this.now;
  }

  /** @internal */
  protected places({ set }: Subject): Place[] {
    const parts = setsByDimension(set);
    if (parts.length > this.#records.length || parts.length + 1 < this.#records.length)
      throw severalKeys('KeyState', 'JointState with the bytes of each of stateKeys');
    // The state of an id follows the states of the keys.
    const id = this.#records[parts.length];
    return parts.map((part, i) => new RecordPlace(this.#records[i]!, part, this.#events, id));
  }

  /** @internal */
  protected placesBeside(i: number, { set }: Subject): Place[] {
    const record = this.#records[i]!;
    return setsByDimension(set).map((part) => new RecordPlace(record, part, this.#events));
  }

  /** @internal All keys get the same step, because a charge to all of them is returned by a single step. */
  protected step(): number {
    let step = 0;
    for (const record of this.#records) step = Math.max(step, record.nextStep());
    if (this.#records.length > 1) for (const record of this.#records) record.nextStep(step);
    return step;
  }

  /** @internal */
  protected note(i: number, change: JournalEntry): void {
    ((this.#logs ??= [])[i] ??= []).push({ ...change, at: this.now });
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
