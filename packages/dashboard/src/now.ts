import {
  withoutPage,
  withoutSecrets,
  type Admin,
  type KeyRates,
  type LimiterRates,
  type LimiterView,
  type Loss,
  type QueuesView,
  type Traffic,
} from 'headgate/admin';
import { Cached } from './cached.js';
import { changeRow, FIRST_KEYS, latestOf, type ChangeRow } from './change-row.js';
import { firstOf } from './first.js';
import type { Show } from './hidden.js';
import { Ends, type DeniedKey } from './ends.js';
import { Judges } from './judges.js';
import { refuse } from './input.js';
import { readMinutes, type Minutes } from './minutes.js';
import type { CountedSlots } from './near.js';
import { Pauses } from './pauses.js';
import { partsOf, type Parts } from './now-parts.js';
import type { Sampled } from './searches.js';

/** Ages of the parts, ms. Counts change each second; the others change rarely. */
const TRAFFIC_MS = 1_800;
const HISTORY_MS = 10_000;
const LIMITERS_MS = 10_000;
const MEMORY_MS = 5_000;
const CHANGES_MS = 4_000;

/** The age of the names in which a name that is unknown is looked for again, ms. */
const UNKNOWN_MS = 1_000;

/** The latest changes beside the limiters, of which one may be an import of many overrides, and the changes that are read for them. */
const LATEST = 12;
const READ = 120;

/** The changes after which a key may no longer be near its limit. */
const OF_CHARGES: readonly ChangeRow['action'][] = ['reset', 'override', 'remove'];

/** The most keys of a limiter that `traffic` reports. */
const KEYS = 20;

/** The most denied and the busiest keys of all limiters. */
const DENIED_KEYS = 12;
const BUSY_KEYS = 12;

/** Reads the state of the first screen. Each part is read as often as it changes, whatever the number of viewers. */
export class Now {
  readonly #traffic: Cached<Traffic>;
  readonly #queues: Cached<QueuesView>;
  readonly #minutes: Cached<Minutes>;
  readonly #limiters: Cached<readonly LimiterView[]>;
  readonly #loss: Cached<Loss | null>;
  readonly #memory: Cached<Awaited<ReturnType<Admin['memory']>>>;
  readonly #changes: Cached<ChangeRow[]>;
  readonly #show: Show;
  readonly judges: Judges;
  readonly #pauses = new Pauses();
  readonly #ends: Ends;
  #last: Parts = {};
  /** Whether the last state had no limiter. */
  #isEmpty = true;
  /** The time of the last state, ms since 1970, or null before the first one. */
  #readAt: number | null = null;

  constructor(admin: Admin, show: Show, now: () => number = Date.now) {
    this.#show = show;
    this.judges = new Judges(admin);
    this.#ends = new Ends(this.judges);
    this.#traffic = new Cached(TRAFFIC_MS, () => admin.traffic({ keys: KEYS }), now);
    this.#queues = new Cached(TRAFFIC_MS, () => admin.queues(), now);
    this.#minutes = new Cached(HISTORY_MS, (last) => readMinutes(admin, last), now);
    this.#limiters = new Cached(LIMITERS_MS, async () => (await admin.limiters()).limiters, now);
    // A user of Redis without the permissions still gets the page.
    this.#loss = new Cached(LIMITERS_MS, () => admin.loss().catch(() => null), now);
    this.#memory = new Cached(MEMORY_MS, () => admin.memory(), now);
    const latest = async (): Promise<ChangeRow[]> =>
      latestOf(await firstOf(admin.log({ withKeys: FIRST_KEYS }), READ), LATEST).map((change) =>
        changeRow(change, show),
      );
    this.#changes = new Cached(CHANGES_MS, latest, now);
  }

  /** Never rejects: if the store fails, the last state is marked as old. */
  async read(): Promise<Parts> {
    const startedAt = Date.now();
    try {
      const [traffic, minutes, limiters, loss, memory, changes] = await Promise.all([
        this.#traffic.get(),
        this.#minutes.get(),
        // A process that has just started publishes its limiters within a second or two.
        this.#limiters.get(this.#isEmpty ? UNKNOWN_MS : LIMITERS_MS),
        this.#loss.get(),
        this.#memory.get(),
        this.#changes.get(),
      ]);
      this.#readAt = Date.now();
      this.#pauses.note(startedAt, false);
      this.#isEmpty = limiters.length === 0;
      const store = {
        state: 'up',
        latency: traffic.latency,
        ...(loss && { loss: { ...loss, at: loss.at.getTime() } }),
      };
      const denied = await this.#denied(traffic, limiters);
      const busy = this.#busy(traffic);
      this.#last = {
        store,
        memory,
        changes,
        denied,
        busy,
        ...partsOf(limiters, traffic, minutes, this.#pauses.silentMs),
      };
    } catch (error) {
      this.#pauses.note(startedAt, true);
      const message = withoutSecrets(causeIn(error instanceof Error ? error.message : String(error)));
      this.#last = { ...this.#last, store: { state: 'down', message, readAt: this.#readAt } };
    }
    return this.#last;
  }

  /** The busiest keys of a limiter, the most denied first. */
  async keysOf(name: string): Promise<readonly KeyRates[]> {
    const { limiters } = await this.#traffic.get();
    return limiters.find((each) => each.name === name)?.keys ?? [];
  }

  /** The waiting requests and the slots of a limiter, by key and process. */
  async queuesOf(name: string): Promise<{ readonly keys: readonly object[]; readonly isCut: boolean }> {
    const { keys, cut } = await this.#queues.get();
    const own = keys.filter((each) => each.name === name);
    const shown = own.map(({ key, within, ...rest }) => ({
      ...{ ...rest, key: this.#show(key) },
      ...(within !== undefined && { within: this.#show(within) }),
    }));
    return { keys: shown, isCut: cut.includes(name) };
  }

  /** See `CountedSlots`. */
  async slotsOf(name: string): ReturnType<CountedSlots> {
    const [{ keys, cut }, limiters] = await Promise.all([this.#queues.get(), this.#limiters.get()]);
    const isKnown = limiters.some((each) => each.name === name && each.isCounted !== false);
    if (!isKnown || cut.includes(name)) return () => null;
    const counted = new Map<string, number>();
    for (const each of keys)
      if (each.name === name) counted.set(idOf(each), (counted.get(idOf(each)) ?? 0) + each.slots);
    return (whose) => counted.get(idOf(whose)) ?? 0;
  }

  /** Whether there is a limiter of this name. A name that is not known yet is looked for at most once a second. */
  async knows(name: string): Promise<boolean> {
    const isIn = (views: readonly { name: string }[]): boolean => views.some((each) => each.name === name);
    if (isIn(await this.#limiters.get())) return true;
    const { limiters } = await this.#traffic.get();
    return isIn(limiters) || isIn(await this.#limiters.get(UNKNOWN_MS));
  }

  async hasTenants(name: string): Promise<boolean> {
    const found = (await this.#limiters.get()).find((each) => each.name === name);
    return found?.traits.sharesLimits ?? false;
  }

  /** The keys to sample of a limiter. Of a limiter with tiers, they are judged by one. An invented tier would be searched for. */
  async sampledIn(name: string, tier: string | undefined): Promise<Sampled> {
    const [most] = (await this.#limiters.get()).find((each) => each.name === name)?.configurations ?? [];
    const { policies = [], tiers = {} } = most ?? {};
    if (tier === undefined || Object.keys(tiers).length === 0) return { name };
    if (tier === '') return policies.length > 0 ? { name, policies } : { name };
    return Object.hasOwn(tiers, tier) ? { name, tier } : refuse('tier: the limiter has no such tier.', 404);
  }

  /** The newest change of charges or limits, by whatever tool, as far as the last state has it. */
  get newestChange(): string | undefined {
    const changes = (this.#last['changes'] ?? []) as readonly ChangeRow[];
    return changes.find(({ action }) => OF_CHARGES.includes(action))?.id;
  }

  /** Makes the next reading show a change that was made just now. */
  expire(): void {
    this.#limiters.expire();
    this.#changes.expire();
    this.judges.expire();
  }

  /** The most denied keys of all limiters, with the ends of their denials. */
  async #denied({ limiters: counted }: Traffic, limiters: readonly LimiterView[]): Promise<object[]> {
    const rows = deniedIn(counted);
    const ends = await this.#ends.of(rows, limiters);
    return rows.map(({ admitted: _, key, within, ...rest }, i) => ({
      ...{ ...rest, ...ends[i], key: this.#show(key) },
      ...(within !== undefined && { within: this.#show(within) }),
    }));
  }

  /** The keys of all limiters with most requests. */
  #busy({ limiters }: Traffic): object[] {
    const all = limiters.flatMap(({ name, keys }) => keys.map((each) => ({ ...each, name })));
    const most = all.sort((a, b) => b.admitted + b.denied - a.admitted - a.denied).slice(0, BUSY_KEYS);
    return most.map(({ name, admitted, denied, dimension, key, within }) => ({
      ...{ name, admitted, denied, dimension, key: this.#show(key) },
      ...(within !== undefined && { within: this.#show(within) }),
    }));
  }
}

/** A message without its page and its advice, which is for programs: a longer `timeout` does not help a reader of the page. */
export const causeIn = (message: string): string =>
  withoutPage(message).replace(/ Set a longer `timeout`\.$/, '');

const idOf = ({ key, dimension, within }: Parameters<Awaited<ReturnType<CountedSlots>>>[0]): string =>
  JSON.stringify([key, dimension, within]);

function deniedIn(limiters: readonly LimiterRates[]): DeniedKey[] {
  return limiters
    .flatMap(({ name, keys }) => keys.filter((each) => each.denied > 0).map((each) => ({ ...each, name })))
    .sort((a, b) => b.denied - a.denied)
    .slice(0, DENIED_KEYS);
}
