import { toMilliseconds, type Duration } from '../../common/duration.js';
import { HeadgateError, invalidOption } from '../../common/errors.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { checkInteger, checkShape } from '../../common/validate.js';
import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import type {
  Announced,
  Announcement,
  Change,
  ChangeReply,
  LeaseChange,
  MaybePromise,
  PolicySet,
  Query,
  Reply,
  Store,
  Subject,
} from '../../contract/store.js';
import type { BanNote } from '../../contract/ban-options.js';
import { addVerdict, countOf, remainingOf, resetOf, waitOf } from '../../contract/verdicts.js';
import { chargedOf } from '../../contract/charged.js';

/** Leases for hot keys: a process takes a slice of a key's quota in one call, and decides from it. See docs/redis.md. */
export interface LeaseOptions {
  /** The most units of a key that this process holds: 2 to 1,000,000, default 1000, and at most a tenth of the lowest limit. */
  size?: number;
  /** How long it may hold them before it gives back what is left: `'1ms'` to `'10s'`, default `'100ms'`. */
  hold?: Duration;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function checkLease(lease: LeaseOptions): { size: number; hold: number } {
  checkShape('redisStore.lease', lease, ['size', 'hold']);
  const { size = 1000, hold: given = '100ms' } = lease;
  const hold = toMilliseconds('redisStore.lease.hold', given);
  if (hold > 10_000) throw invalidOption('redisStore.lease.hold', given, "Write '1ms' to '10s'.");
  return { size: checkInteger('redisStore.lease.size', size, 2, 1e6), hold };
}

/** So many decisions of a key within `hold` make it hot. */
const HOT = 16;

/** Keys that are watched, per policy set. */
const MOST = 10_000;

/** The store's clock counts whole milliseconds: a window may end up to one earlier than was said. */
const TICK = 1;

/** Units that are charged already, and may be spent here until a moment by `performance.now()`. */
interface Slice {
  readonly reply: Reply;
  readonly received: number;
  readonly until: number;
  left: number;
}

interface HotKey {
  decisions: number;
  fetching: boolean;
  /** No slice was to be had: not to be asked for before this moment. */
  waitUntil: number;
  current: Slice | undefined;
  next: Slice | undefined;
}

/** What is known of the keys of one policy set. */
interface View {
  /** Units of a slice; of two at a time, `size` at most. 0: the set is not leased. */
  readonly units: number;
  readonly keys: Map<string, HotKey>;
}

/**
 * A store that holds slices of hot keys' quota. Whatever it admits was charged before, so that the limit holds; a unit may be
 * spent up to `hold` later than it was charged, but never after the end of its fixed window. Nobody waits for a slice: what
 * is asked for without one goes to the store.
 */
export class Slices implements Store {
  readonly #store: Store;
  readonly #size: number;
  readonly #hold: number;
  readonly #views = new Map<PolicySet, View>();
  #timer: NodeJS.Timeout | undefined;

  constructor(store: Store, { size, hold }: { size: number; hold: number }) {
    this.#store = store;
    this.#size = size;
    this.#hold = hold;
  }

  #view(set: PolicySet): View {
    let view = this.#views.get(set);
    if (!view) {
      const limit = Math.min(...set.policies.map((policy) => policy.limit));
      const units = leasable(set) ? Math.floor(Math.min(this.#size, limit / 10) / 2) : 0;
      view = { units, keys: new Map() };
      this.#views.set(set, view);
      this.#arm();
    }
    return view;
  }

  /** @throws HeadgateError `HEADGATE_DIMENSIONS` */
  checkDimensions(set: PolicySet): void {
    if ((set.dimensions?.names.length ?? 1) > 1) {
      throw new HeadgateError(
        'HEADGATE_DIMENSIONS',
        'redisStore({ lease }) takes slices of the quota of one key, and these policies are by keys of several dimensions. Leave out ' +
          '`lease`, or make a limiter for each dimension.',
      );
    }
    this.#store.checkDimensions?.(set);
  }

  decide(query: Query): MaybePromise<Reply> {
    const { set, key, cost, peek } = query;
    const view = this.#view(set);
    if (typeof key !== 'string' || peek || cost > view.units) return this.#store.decide(query);
    let hot = view.keys.get(key);
    if (!hot) {
      if (view.keys.size >= MOST) return this.#store.decide(query);
      hot = { decisions: 0, fetching: false, waitUntil: 0, current: undefined, next: undefined };
      view.keys.set(key, hot);
    }
    hot.decisions++;
    const now = performance.now();
    let slice = hot.current;
    if (!slice || slice.left < cost || now >= slice.until) {
      if (slice) void this.#giveBack(query, slice);
      slice = hot.current = hot.next;
      hot.next = undefined;
    }
    // The next slice is on its way before this one is used up.
    if (!hot.next && (!slice || slice.left <= view.units / 2)) this.#fetch(set, key, view, hot, now);
    if (!slice || slice.left < cost || now >= slice.until) return this.#store.decide(query);
    slice.left -= cost;
    return fromSlice(slice, Math.floor(now - slice.received));
  }

  #fetch(set: PolicySet, key: string, view: View, hot: HotKey, asked: number): void {
    if (hot.fetching || hot.decisions < HOT || asked < hot.waitUntil) return;
    hot.fetching = true;
    const query: Query = { set, key, cost: view.units, peek: false, lease: '' };
    const done = (reply: Reply | undefined): void => {
      hot.fetching = false;
      if (
        !reply ||
        reply.verdicts.length === 0 ||
        set.policies.some((_, i) => waitOf(reply.verdicts, i) !== 0)
      ) {
        hot.waitUntil = performance.now() + this.#hold;
        return;
      }
      const slice: Slice = {
        reply,
        received: performance.now(),
        until: asked + Math.min(this.#hold, windowsEnd(set, reply) - TICK),
        left: view.units,
      };
      // The key was reset, or this store closed, meanwhile.
      if (view.keys.get(key) !== hot) void this.#giveBack(query, slice);
      else hot.next = slice;
    };
    Promise.resolve(this.#store.decide(query)).then(done, () => done(undefined));
  }

  /** If that fails, the units leave the account in their time: they were charged. */
  async #giveBack({ set, key }: Subject, slice: Slice): Promise<void> {
    const { left, reply } = slice;
    slice.left = 0;
    if (left === 0) return;
    const units = set.policies.map(() => -left);
    const charged = chargedOf(reply);
    try {
      await this.#store.adjust({ set, key, units, charged, degraded: undefined });
    } catch {
      // Said above.
    }
  }

  #arm(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#sweep(performance.now());
    }, this.#hold).unref();
  }

  /** Gives back what has been held long enough, and forgets the keys that are not hot. */
  #sweep(now: number): void {
    for (const [set, { keys }] of this.#views) {
      for (const [key, hot] of keys) {
        for (const slice of [hot.current, hot.next])
          if (slice && now >= slice.until) void this.#giveBack({ set, key }, slice);
        if (hot.current?.left === 0) hot.current = undefined;
        if (hot.next?.left === 0) hot.next = undefined;
        if (hot.decisions < HOT && !hot.current && !hot.next && !hot.fetching) keys.delete(key);
        hot.decisions = 0;
      }
      if (keys.size > 0) this.#arm();
      else this.#views.delete(set);
    }
  }

  adjust(change: Change): MaybePromise<ChangeReply> {
    return this.#store.adjust(change);
  }

  lease(change: LeaseChange): MaybePromise<boolean> {
    return this.#store.lease(change);
  }

  reset(subject: Subject): MaybePromise<void> {
    // What this process holds of the key was charged before: it goes with the other charges.
    if (typeof subject.key === 'string') this.#view(subject.set).keys.delete(subject.key);
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

  /** Gives everything back. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const returns: Promise<void>[] = [];
    for (const [set, { keys }] of this.#views) {
      for (const [key, { current, next }] of keys)
        for (const slice of [current, next]) if (slice) returns.push(this.#giveBack({ set, key }, slice));
      keys.clear();
    }
    this.#views.clear();
    await Promise.all(returns);
    await this.#store.close?.();
  }
}

/** Only where a charge is all that a decision does, and each denial may go uncounted. */
function leasable({ policies, ban }: PolicySet): boolean {
  const leases = ({ traits, shadow, attempts }: CompiledPolicy): boolean =>
    traits.slices !== 'never' && !shadow && !attempts;
  return ban === undefined && policies.every(leases);
}

/** When the first window ends, ms from the reply on: what was charged in one is not spent in the next. */
function windowsEnd({ policies }: PolicySet, { verdicts }: Reply): number {
  let end = Infinity;
  policies.forEach(({ traits }, i) => {
    if (traits.slices === 'until-reset') end = Math.min(end, resetOf(verdicts, i));
  });
  return end;
}

/** An admission from a slice. The moment at which its charge leaves the account, `now` + `resetAfter`, is the slice's. */
function fromSlice({ reply, left }: Slice, passed: number): Reply {
  const { verdicts: charged } = reply;
  const verdicts: number[] = [];
  for (let i = 0; i < countOf(charged); i++)
    addVerdict(verdicts, 0, remainingOf(charged, i) + left, Math.max(0, resetOf(charged, i) - passed));
  return { now: reply.now + passed, step: reply.step, ban: 0, verdicts };
}
