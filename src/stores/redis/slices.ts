import { merged } from './across.js';
import { partsOf, select, withinSlot, type Part } from '../../contract/parts.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import { within } from '../../common/within.js';
import {
  newCall,
  type Announced,
  type Announcement,
  type Change,
  type ChangeReply,
  type Keys,
  type LeaseChange,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../../contract/store.js';
import type { BanNote } from '../../contract/ban-options.js';
import { addVerdict, countOf, remainingOf, resetOf, waitOf } from '../../contract/verdicts.js';
import { chargedOf } from '../../contract/charged.js';

/** A key is hot if it has this many decisions within `keepFor`. */
const HOT = 16;

/** The most keys that are watched, per dimension of a policy set. */
const MOST = 10_000;

/** The store's clock counts whole milliseconds, so a window may end up to one earlier than it said. */
const TICK = 1;

/** Units that are already charged, and may be spent in this process until a time by `performance.now()`. */
interface Slice {
  readonly reply: Reply;
  readonly received: number;
  readonly until: number;
  left: number;
}

interface HotKey {
  /** The key, with only the policies of its dimension. */
  readonly subject: Subject;
  /** The units of a slice. */
  readonly units: number;
  decisions: number;
  /** Resolves when the next slice has arrived or was given back. */
  fetching: Promise<void> | undefined;
  /** Whether the key was reset, or the store was closed. */
  isGone: boolean;
  /** After the store denied a slice: the time before which no other slice is requested. */
  waitUntil: number;
  current: Slice | undefined;
  next: Slice | undefined;
}

/** The watched keys of one dimension of a policy set. */
interface HotKeys {
  /** The units of a slice. A key has at most two slices, which together have at most `size` units. 0: the set cannot be sliced. */
  readonly units: number;
  readonly keys: Map<string, HotKey>;
}

/**
 * A store that charges slices of hot keys' quota in advance, and admits requests from them. The limit is therefore kept. A unit may be
 * spent up to `keepFor` after it was charged, but not after the end of its fixed window. A decision by several keys needs a slice of each.
 * Requests never wait for a slice: without one, the store decides.
 */
export class Slices implements Store {
  readonly #store: Store;
  readonly #size: number;
  readonly #keepFor: number;
  /** The watched keys of each part of a policy set that is by one dimension. */
  readonly #hotKeys = new Map<PolicySet, HotKeys>();
  #timer: NodeJS.Timeout | undefined;

  constructor(store: Store, { size, keepFor }: { size: number; keepFor: number }) {
    this.#store = store;
    this.#size = size;
    this.#keepFor = keepFor;
  }

  #hotKeysOf(set: PolicySet): HotKeys {
    let hotKeys = this.#hotKeys.get(set);
    if (!hotKeys) {
      const limit = Math.min(...set.policies.map((policy) => policy.limit));
      const units = canBeSliced(set) ? Math.floor(Math.min(this.#size, limit / 10) / 2) : 0;
      hotKeys = { units, keys: new Map() };
      this.#hotKeys.set(set, hotKeys);
      this.#arm();
    }
    return hotKeys;
  }

  /** @throws HeadgateError `HEADGATE_DIMENSIONS` */
  checkDimensions(set: PolicySet): void {
    this.#store.checkDimensions?.(set);
  }

  decide(query: Query): MaybePromise<Reply> {
    const { cost, costs, peek } = query;
    // A slice would outlive the limit from which it was taken. It has the same units of each policy.
    const keys = peek || costs || query.set.overrides ? undefined : this.#keysOf(query);
    if (!keys) return this.#store.decide(query);
    const now = performance.now();
    let [areHot, haveSlices] = [true, true];
    for (const hot of keys) {
      hot.decisions++;
      if (!has(hot.current, cost, now)) this.#advance(hot);
      areHot &&= hot.decisions >= HOT && now >= hot.waitUntil;
      haveSlices &&= has(hot.current, cost, now);
    }
    // A slice of one key is useless as long as another key of the decision has none.
    if (areHot) for (const hot of keys) this.#prepare(hot, now);
    if (!haveSlices) return this.#store.decide(query);
    if (keys.length === 1) return spend(keys[0]!.current!, cost, now);
    const replies = keys.map(({ current }) => spend(current!, cost, now));
    return merged(partsOf(query.set), replies);
  }

  /** The keys of a decision. Undefined if it cannot be made from slices. */
  #keysOf({ set, key, cost }: Query): readonly HotKey[] | undefined {
    const parts = partsOf(set);
    const all: HotKey[] = [];
    for (const part of parts) {
      const { units, keys } = this.#hotKeysOf(part.set);
      if (cost > units) return undefined;
      const id = part.keyOf(key);
      let hot = keys.get(id);
      if (!hot) {
        if (keys.size >= MOST) return undefined;
        keys.set(id, (hot = newKey(subjectOf(part, set, key), units)));
      }
      all.push(hot);
    }
    return all;
  }

  /** Replaces a slice that is used up or too old with the next one. */
  #advance(hot: HotKey): void {
    if (hot.current) void this.#giveBack(hot.subject, hot.current);
    hot.current = hot.next;
    hot.next = undefined;
  }

  /** Requests the next slice before the current one is used up. */
  #prepare(hot: HotKey, asked: number): void {
    const { current, next, subject, units } = hot;
    if (hot.fetching || next || (current && current.left > units / 2)) return;
    const query: Query = { ...subject, cost: units, peek: false, lease: '', call: newCall() };
    const done = (reply: Reply | undefined): Promise<void> | void => {
      hot.fetching = undefined;
      const { set } = subject;
      if (
        !reply ||
        reply.verdicts.length === 0 ||
        set.policies.some((_, i) => waitOf(reply.verdicts, i) !== 0)
      ) {
        hot.waitUntil = performance.now() + this.#keepFor;
        return;
      }
      const slice: Slice = {
        reply,
        received: performance.now(),
        until: asked + Math.min(this.#keepFor, windowsEnd(set, reply) - TICK),
        left: units,
      };
      if (hot.isGone) return this.#giveBack(subject, slice);
      hot.next = slice;
    };
    hot.fetching = Promise.resolve(this.#store.decide(query)).then(done, () => done(undefined));
  }

  /** Gives back the rest of a slice. If that fails, its units stay charged until they expire. */
  async #giveBack({ set, key }: Subject, slice: Slice): Promise<void> {
    const { left, reply } = slice;
    slice.left = 0;
    if (left === 0) return;
    const units = set.policies.map(() => -left);
    const charged = chargedOf(reply);
    try {
      await this.#store.adjust({ set, key, units, charged, degraded: undefined });
    } catch {
      // The charge then expires by itself, as documented above.
    }
  }

  /** Forgets a key, and gives back its slices. */
  async #drop(keys: Map<string, HotKey>, id: string): Promise<void> {
    const hot = keys.get(id);
    if (!hot) return;
    keys.delete(id);
    hot.isGone = true;
    const slices = [hot.current, hot.next];
    hot.current = hot.next = undefined;
    const given = slices.map((slice) => (slice ? this.#giveBack(hot.subject, slice) : undefined));
    await Promise.all([hot.fetching, ...given]);
  }

  #arm(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#sweep(performance.now());
    }, this.#keepFor).unref();
  }

  /** Gives back slices that are too old, and forgets keys that are no longer hot. */
  #sweep(now: number): void {
    for (const [set, { keys }] of this.#hotKeys) {
      for (const [id, hot] of keys) {
        for (const slice of [hot.current, hot.next])
          if (slice && now >= slice.until) void this.#giveBack(hot.subject, slice);
        if (hot.current?.left === 0) hot.current = undefined;
        if (hot.next?.left === 0) hot.next = undefined;
        if (hot.decisions < HOT && !hot.current && !hot.next && !hot.fetching) keys.delete(id);
        hot.decisions = 0;
      }
      if (keys.size > 0) this.#arm();
      else this.#hotKeys.delete(set);
    }
  }

  adjust(change: Change): MaybePromise<ChangeReply> {
    return this.#store.adjust(change);
  }

  lease(change: LeaseChange): MaybePromise<boolean> {
    return this.#store.lease(change);
  }

  reset(subject: Subject): MaybePromise<void> {
    // Drop the slices of all tiers: those of other tiers were also charged before the reset.
    for (const { scope, keyOf } of partsOf(subject.set))
      for (const [set, { keys }] of this.#hotKeys)
        if (set.name === subject.set.name && partsOf(set)[0]!.scope === scope)
          void this.#drop(keys, keyOf(subject.key));
    return this.#store.reset(subject);
  }

  ban(subject: Subject, duration: number, note?: BanNote): MaybePromise<void> {
    return this.#store.ban(subject, duration, note);
  }

  servers(): readonly string[] {
    return this.#store.servers?.() ?? [];
  }

  serverOf(subject: Subject): string | undefined {
    return this.#store.serverOf?.(subject);
  }

  whenReady(): Promise<void> | undefined {
    return this.#store.whenReady?.();
  }

  waitsFor(): string | undefined {
    return this.#store.waitsFor?.();
  }

  announce(limiter: Announcement): Announced | undefined {
    return this.#store.announce?.(limiter);
  }

  /** Gives back all slices. A server that hangs is waited for only as long as a decision would wait. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const returns: Promise<void>[] = [];
    let timeout = 0;
    for (const [set, { keys }] of this.#hotKeys) {
      timeout = Math.max(timeout, set.timeout);
      for (const id of keys.keys()) returns.push(this.#drop(keys, id));
    }
    this.#hotKeys.clear();
    await within<unknown>(timeout, Promise.all(returns), () => undefined);
    await this.#store.close?.();
  }
}

function newKey(subject: Subject, units: number): HotKey {
  return {
    ...{ subject, units, decisions: 0, waitUntil: 0, fetching: undefined, isGone: false },
    ...{ current: undefined, next: undefined },
  };
}

/** One key of a decision, with only the policies of its dimension. */
function subjectOf({ name, set: part, keyOf }: Part, set: PolicySet, key: Keys): Subject {
  const { names = [], slotBy } = set.dimensions ?? {};
  if (typeof key === 'string' || slotBy === undefined || name === slotBy)
    return { set: part, key: keyOf(key) };
  const at = [slotBy, name].flatMap((each) => (names.includes(each) ? names.indexOf(each) : []));
  at.sort((a, b) => a - b);
  const selected = select(
    set,
    at.reduce((bits, i) => bits | (1 << i), 0),
  );
  return { set: withinSlot(selected), key: at.map((i) => key[i]!) };
}

function has(slice: Slice | undefined, cost: number, now: number): boolean {
  return slice !== undefined && slice.left >= cost && now < slice.until;
}

/** Whether slices can be charged in advance: a decision must do nothing but charge, and no denials may be counted. */
function canBeSliced({ policies, ban }: PolicySet): boolean {
  const canBe = ({ traits, shadow, attempts }: CompiledPolicy): boolean =>
    traits.slices !== 'never' && !shadow && !attempts;
  return ban === undefined && policies.every(canBe);
}

/** When the first window ends, in ms after the reply. Units that were charged in a window must not be spent in the next one. */
function windowsEnd({ policies }: PolicySet, { verdicts }: Reply): number {
  let end = Infinity;
  policies.forEach(({ traits }, i) => {
    if (traits.slices === 'until-reset') end = Math.min(end, resetOf(verdicts, i));
  });
  return end;
}

/** An admission from a slice. Its charge expires together with the slice's, at `now` + `resetAfter`. */
function spend(slice: Slice, cost: number, now: number): Reply {
  slice.left -= cost;
  const { reply, left, received } = slice;
  const passed = Math.floor(now - received);
  const { verdicts: charged } = reply;
  const verdicts: number[] = [];
  for (let i = 0; i < countOf(charged); i++)
    addVerdict(verdicts, 0, remainingOf(charged, i) + left, Math.max(0, resetOf(charged, i) - passed));
  return { now: reply.now + passed, step: reply.step, ban: 0, verdicts };
}
