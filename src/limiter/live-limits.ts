import { inBackground } from '../common/background.js';
import { DOCS, HeadgateError, show } from '../common/errors.js';
import { clearTimeout, setTimeout } from '../common/real-time.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import { clientChangeOf } from '../features/overrides/key-limits.js';
import {
  entryInForce,
  isDamaged,
  LIMITS_PREFIX,
  recordDimensions,
  UNREADABLE,
  type OverrideRecord,
} from '../features/overrides/contract/records.js';
import {
  isNothing,
  isPromise,
  type MaybePromise,
  type OverrideStore,
  type PolicySet,
  type Store,
  type Subject,
} from '../contract/store.js';
import { ChangeChecks, isOf } from './overrides/changes.js';
import { RepeatedReads } from './overrides/late-reads.js';
import {
  OverriddenSets,
  POLL_MS,
  reportUnreadable,
  type ClientChanges,
  type SetParts,
} from './overrides/overridden-sets.js';
import { overrideOf, type Override } from './overrides/override.js';
import { OverrideWriter } from './overrides/override-writer.js';
import { askUsage, NO_USAGE, usageOf, type Usage } from './usage.js';

const MAX_KEYS = 10_000;

/** The most repetitions of a question. Before each repetition the override must have changed. */
export const MAX_REPETITIONS = 5;

export function changesAllTheTime(key: Key): HeadgateError {
  return new HeadgateError('HEADGATE_OVERRIDES', `The override of ${show(key)} changes all the time.`);
}

type ReadRecord = readonly [record: OverrideRecord, now: number];

/** The parts of a limiter that has overrides. */
interface LivePart extends Omit<SetParts, 'name' | 'checks'> {
  /** The policies of requests without a tier. */
  readonly base: PolicySet;
  readonly dynamic: boolean;
}

/** The sets by which the keys of a limiter with overrides are decided, as far as this process knows the overrides. */
export class LiveLimits {
  readonly writer: OverrideWriter;
  readonly #store: Store;
  readonly #records: OverrideStore;
  readonly #base: PolicySet;
  readonly #parts: SetParts;
  readonly #changes = new Map<string, ClientChanges>();
  #sets: OverriddenSets;
  readonly #reads = new RepeatedReads();
  #timer: NodeJS.Timeout | undefined;
  /** The first read of the override of all keys, while under way. Decisions wait for the read, and are degraded if the read fails. */
  #firstRead: Promise<void> | undefined;
  #isClosed = false;
  #onChange = (): void => {};

  /** @throws HeadgateError `HEADGATE_OVERRIDES` if the store does not support overrides */
  constructor({ store, base, tiers, scope, dynamic, warn }: LivePart) {
    if (!store.overrides) {
      throw new HeadgateError(
        'HEADGATE_OVERRIDES',
        'overrides: this store does not support overrides. Use memoryStore, redisStore, sqliteStore or stateStore, or give the store the ' +
          `property \`overrides\`: see ${DOCS}/extending.md.`,
      );
    }
    const checks = new ChangeChecks(tiers, dynamic);
    this.#store = store;
    this.#records = store.overrides;
    this.#base = base;
    this.#parts = { store, name: base.name, tiers, scope, checks, warn };
    this.#sets = new OverriddenSets(this.#parts, '', undefined);
    const onChangeOfAll = (): Promise<void> => this.#read();
    this.writer = new OverrideWriter({
      ...{ records: this.#records, base, scope, checks, dynamic, warn },
      onChangeOfAll,
    });
  }

  /** Begins to read the override of all keys. @param onChange called after each change of the override */
  start(onChange: () => void): void {
    this.#onChange = onChange;
    const read = this.#poll();
    // A store in this process is read by each decision.
    if (!this.#store.embedded) this.#firstRead = read.finally(() => (this.#firstRead = undefined));
    this.#firstRead?.catch(() => {});
  }

  /** Whether an override of all keys is in force, as far as this process knows. */
  get hasOverrideOfAll(): boolean {
    return this.#sets.entry !== undefined;
  }

  /** The set by which a key is decided, as far as this process knows. */
  setFor(key: Key, set: PolicySet): PolicySet {
    const { record, entry } = this.#sets;
    const hasChanges = this.#changes.size > 0;
    if (!hasChanges && entry === undefined && record === '') return set;
    return this.#sets.of(set, hasChanges ? this.#changes.get(keyText(key)) : undefined);
  }

  /**
   * The set by which to ask about a key. If overrides leave out all policies of a dimension, questions do not read the dimension's record,
   * so the record is read here.
   */
  current(key: Key, set: PolicySet): MaybePromise<PolicySet> {
    if (this.#firstRead) return this.#firstRead.then(() => this.current(key, set));
    this.#readAtOnce();
    const own = this.setFor(key, set);
    // Questions by a plan without a limit read no record, so a key's other tier would be unknown.
    if (own === set && set.policies.length > 0) return set;
    const unread = this.#sets
      .unreadBy(own)
      .filter((by) =>
        typeof key === 'string' ? by === DEFAULT_DIMENSION : Object.hasOwn(key, by) && key[by] !== undefined,
      );
    if (unread.length === 0) return own;
    const subject = this.#subjectOf(key);
    const answers = unread.map((by) => this.#records.read({ subject, by }));
    const learn = (read: readonly ReadRecord[]): PolicySet => {
      return this.learn(key, set, changesIn(unread, read, this.#sets.unknown));
    };
    if (!answers.some((answer) => isPromise(answer))) return learn(answers as ReadRecord[]);
    // While the store is down, the last known changes stay in force.
    return Promise.all(answers as Promise<ReadRecord>[]).then(learn, () => this.setFor(key, set));
  }

  /** A set by which a charge is changed later, with the current override of all keys, which the store needs. */
  ofChange(set: PolicySet): PolicySet {
    this.#readAtOnce();
    return this.#sets.ofChange(set);
  }

  /** The set by which to ask again, after the store has returned the client changes of a key. */
  learn(key: Key, set: PolicySet, changes: ClientChanges): PolicySet {
    const id = keyText(key);
    // The store does not return the records of dimensions without a policy in the set.
    const known = { ...this.#changes.get(id), ...changes };
    for (const change of Object.values(changes)) {
      const [revision, text = ''] = change.split('\t');
      if (revision === UNREADABLE) reportUnreadable(this.#parts, text, 'it cannot be read', key);
    }
    this.#changes.delete(id);
    if (Object.values(known).some((change) => change !== '')) {
      if (this.#changes.size >= MAX_KEYS) this.#changes.delete(this.#changes.keys().next().value!);
      this.#changes.set(id, known);
    }
    return this.setFor(key, set);
  }

  /** Reads the overrides of a key for an operation by hand, so that the scope knows all policies that charge the key. */
  async refresh(key: Key, set: PolicySet): Promise<PolicySet> {
    await this.#read();
    const dimensions = this.#dimensionsOf(key);
    const read = await this.#readAll(key);
    // The limits may be of the policies of another process, so that this one has to apply the change.
    const changes = changesIn(dimensions, read, LIMITS_PREFIX);
    for (const each of this.#parts.tiers.all) this.learn(key, each, changes);
    return this.setFor(key, set);
  }

  /** The override of a key, or of the first of several keys with an override. It may leave no policy that applies to the key. */
  async overrideOf(key: Key): Promise<Override | undefined> {
    const read = await this.#readAll(key);
    const entry = read.map(([record, now]) => entryInForce(record, now)).find((each) => each !== undefined);
    return entry && overrideOf(entry);
  }

  async usage(key: Key, set: PolicySet): Promise<Usage> {
    // Each repetition follows a change of the override.
    for (let left = MAX_REPETITIONS; left > 0; left--) {
      const subject = this.#parts.scope.subject(await this.current(key, set), key);
      if (isNothing(subject.set)) return { ...NO_USAGE, override: await this.overrideOf(key) };
      const reply = await askUsage(this.#store, subject);
      if (reply.clientChanges) {
        this.learn(key, set, reply.clientChanges);
        continue;
      }
      const dimensions = this.#dimensionsOf(key);
      const usage = usageOf(subject, reply, dimensions);
      // The store reads no record of a dimension of which all policies are left out.
      const isWhole = dimensions.every((by) => subject.set.policies.some(isOf(by)));
      return isWhole ? usage : { ...usage, override: await this.overrideOf(key) };
    }
    throw changesAllTheTime(key);
  }

  /** The dimensions of a key for which there may be an override, in the limiter's order. */
  #dimensionsOf(key: Key): string[] {
    return recordDimensions(this.#subjectOf(key).set);
  }

  #readAll(key: Key): Promise<ReadRecord[]> {
    const subject = this.#subjectOf(key);
    return Promise.all(this.#dimensionsOf(key).map(async (by) => this.#records.read({ subject, by })));
  }

  #subjectOf(key: Key): Subject {
    const { scope } = this.#parts;
    return scope.subject(scope.everything, key);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  /** Reads the override of all keys periodically, by a timer that keeps no process alive. */
  #poll(): Promise<void> {
    const again = (): void => {
      if (this.#isClosed) return;
      this.#timer = setTimeout(() => void this.#poll(), POLL_MS * (0.9 + 0.2 * Math.random()));
      this.#timer.unref();
    };
    const read = this.#read();
    void inBackground(
      'The override of all keys was not read',
      this.#reads.outcome(read),
      this.#parts.warn,
    ).then(again);
    return read;
  }

  async #read(): Promise<void> {
    this.#learnAll(await this.#records.read({ set: this.#base }));
  }

  /** Reads a store in this process, which answers at once, so that an override of all keys begins and ends on time, also by an injected clock. */
  #readAtOnce(): void {
    const read = this.#store.embedded ? this.#records.read({ set: this.#base }) : undefined;
    if (read && !isPromise(read)) this.#learnAll(read);
  }

  #learnAll([record, now]: ReadRecord): void {
    const entry = entryInForce(record, now);
    const last = this.#sets;
    if (record === last.record && entry === last.entry) return;
    if ((entry?.isDamaged || isDamaged(record)) && record !== last.record)
      reportUnreadable(this.#parts, record, 'an entry has no times or limits');
    this.#sets = new OverriddenSets(this.#parts, record, entry);
    this.#onChange();
  }
}

/** The client changes in the records of dimensions. @param unknown the revision of an unknown change */
function changesIn(
  dimensions: readonly string[],
  read: readonly ReadRecord[],
  unknown: string,
): ClientChanges {
  return Object.fromEntries(
    read.map(([record, now], i) => [dimensions[i]!, clientChangeOf(entryInForce(record, now), [], unknown)]),
  );
}

function keyText(key: Key): string {
  return typeof key === 'string' ? key : `\0${JSON.stringify(key)}`;
}
