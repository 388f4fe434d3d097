import {
  banRuleOf,
  silentMs,
  withoutPage,
  withoutSecrets,
  type Admin,
  type KeyRates,
  type LimiterHistory,
  type LimiterRates,
  type LimiterView,
  type Loss,
  type QueuesView,
  type Traffic,
} from 'headgate/admin';
import { Cached } from './cached.js';
import { changeRow, type ChangeRow } from './change-row.js';
import { firstOf } from './first.js';
import type { Show } from './hidden.js';
import { Ends, type DeniedKey } from './ends.js';
import { Judges } from './judges.js';
import { refuse } from './input.js';
import type { CountedSlots } from './near.js';
import type { Sampled } from './searches.js';

/** The state that the page shows, by the names of its parts. Parts are sent separately, when they change. */
export type Parts = Readonly<Record<string, unknown>>;

/** Ages of the parts, ms. Counts change each second; the others change rarely. */
const TRAFFIC_MS = 1_800;
const HISTORY_MS = 10_000;
const LIMITERS_MS = 10_000;
const MEMORY_MS = 5_000;
const CHANGES_MS = 4_000;

/** The age of the names in which a name that is unknown is looked for again, ms. */
const UNKNOWN_MS = 1_000;

/** The minutes of the sparklines, and of later readings, because older minutes do not change. */
const MINUTES = 15;
const RECENT_MINUTES = 2;

/** The minutes in which keys near their limit are counted, and the level of their use: `USE_LEVELS[14]`, 71 %. */
const NEAR_MINUTES = 5;
const NEAR_LEVEL = 14;

/** The latest changes beside the limiters. */
const LATEST = 12;

/** The most keys of a limiter that `traffic` reports. */
const KEYS = 20;

/** The most denied and the busiest keys of all limiters. */
const DENIED_KEYS = 12;
const BUSY_KEYS = 12;

const MAX_PROCESSES = 200;

/** The traits of a limiter that is not published. */
const UNKNOWN = { holdsSlots: false, sharesLimits: false };

const QUIET = { admitted: 0, denied: 0, degraded: 0, waiting: 0, held: 0, slots: 0 } as const;

const COLUMNS = ['admitted', 'denied', 'degraded'] as const;

type Column = (typeof COLUMNS)[number];

interface Minutes {
  readonly starts: readonly number[];
  readonly limiters: ReadonlyMap<string, Pick<LimiterHistory, Column | 'use'>>;
}

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
      (await firstOf(admin.log({ withKeys: true }), LATEST)).map((change) => changeRow(change, show));
    this.#changes = new Cached(CHANGES_MS, latest, now);
  }

  /** Never rejects: if the store fails, the last state is marked as old. */
  async read(): Promise<Parts> {
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
      this.#isEmpty = limiters.length === 0;
      const store = {
        state: 'up',
        latency: traffic.latency,
        ...(loss && { loss: { ...loss, at: loss.at.getTime() } }),
      };
      const denied = await this.#denied(traffic, limiters);
      const busy = this.#busy(traffic);
      this.#last = { store, memory, changes, denied, busy, ...partsOf(limiters, traffic, minutes) };
    } catch (error) {
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

async function readMinutes(admin: Admin, last: Minutes | undefined): Promise<Minutes> {
  const recent = last && (await admin.history({ minutes: RECENT_MINUTES }));
  const isNext = recent !== undefined && last!.starts.includes(recent.minutes[0]!);
  const { minutes: starts, limiters } = isNext ? recent : await admin.history({ minutes: MINUTES });
  if (!isNext) return { starts, limiters: new Map(limiters.map((each) => [each.name, each])) };
  const kept = last!.starts.filter((start) => start < starts[0]!);
  const all = [...kept, ...starts].slice(-MINUTES);
  const by = new Map(limiters.map((each) => [each.name, each]));
  const names = new Set([...last!.limiters.keys(), ...by.keys()]);
  const merged = [...names].map((name) => {
    const [before, after] = [last!.limiters.get(name), by.get(name)];
    const join = (column: Column): number[] => {
      const old = kept.map((_, i) => before?.[column][i] ?? 0);
      const fresh = starts.map((_, i) => after?.[column][i] ?? 0);
      return [...old, ...fresh].slice(-MINUTES);
    };
    const columns = Object.fromEntries(COLUMNS.map((column) => [column, join(column)]));
    return [name, { ...(columns as Record<Column, number[]>), use: after?.use ?? {} }] as const;
  });
  return { starts: all, limiters: new Map(merged) };
}

function partsOf(limiters: readonly LimiterView[], traffic: Traffic, minutes: Minutes): Parts {
  const counted = new Map(traffic.limiters.map((each) => [each.name, each]));
  const known = new Set(limiters.map(({ name }) => name));
  // A limiter that counts and is not published, such as one of an earlier version.
  const others = traffic.limiters.filter(({ name }) => !known.has(name)).map(({ name }) => name);
  const rows = [
    ...limiters.map((view) => {
      const isKnown = counted.has(view.name) || minutes.limiters.has(view.name);
      const isCounted = view.isCounted ?? (isKnown || null);
      return rowOf({ ...view, isCounted }, counted.get(view.name));
    }),
    ...others.map((name) =>
      rowOf({ name, configurations: [], isCounted: true, traits: UNKNOWN }, counted.get(name)),
    ),
  ];
  const sparks = [...minutes.limiters].map(([name, each]) => [`spark ${name}`, sparkOf(each)] as const);
  const sum = (field: keyof typeof QUIET): number =>
    Math.round(10 * traffic.limiters.reduce((total, each) => total + each[field], 0)) / 10;
  const { instances, isSampled, processes, spanMs } = traffic;
  const fields = Object.keys(QUIET) as (keyof typeof QUIET)[];
  return {
    total: {
      ...Object.fromEntries(fields.map((field) => [field, sum(field)])),
      ...{ spanMs, instances, isSampled },
    },
    minutes: minutes.starts,
    processes: processes.map(({ since, ...each }) => ({ ...each, since: since?.getTime() ?? null })),
    instances: instancesOf(limiters),
    ...Object.fromEntries(rows.map((row) => [`row ${row.name}`, row])),
    ...Object.fromEntries(sparks),
  };
}

interface ProcessRow {
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  /** The time since its last publication, ms, if the next one is late. Otherwise 0. */
  readonly silentMs: number;
  readonly names: string[];
  /** The limiters of which another configuration is more common. */
  readonly differing: string[];
}

function instancesOf(limiters: readonly LimiterView[]): ProcessRow[] {
  const rows = new Map<string, ProcessRow>();
  for (const { name, configurations } of limiters)
    for (const [i, { instances }] of configurations.entries())
      for (const instance of instances) {
        const { host, pid, version } = instance;
        const id = `${host} ${pid}`;
        const silent = silentMs(instance);
        const row = rows.get(id) ?? { host, pid, version, silentMs: silent, names: [], differing: [] };
        rows.set(id, row);
        row.names.push(name);
        if (i > 0) row.differing.push(name);
      }
  return [...rows.values()].slice(0, MAX_PROCESSES);
}

/** A row of the first screen. */
function rowOf(view: LimiterView, counted: LimiterRates | undefined) {
  const { name, configurations, isCounted, traits, overridden } = view;
  const [most] = configurations;
  const { admitted, denied, degraded, waiting, held, slots } = counted ?? QUIET;
  const { policies = [], reasons = [] } = counted ?? {};
  const instances = configurations.flatMap((each) => each.instances);
  const causes = [
    ...policies.map((each) => ({ ...each, isReason: false })),
    ...reasons.map(({ reason, ...each }) => ({ name: reason, ...each, isReason: true })),
  ].filter((each) => each.denied > 0);
  return {
    name,
    policies: most?.policies ?? [],
    tiers: most?.tiers ?? {},
    shadow: most?.shadow ?? false,
    dynamic: most?.dynamic ?? false,
    bans: configurations.some(({ ban }) => ban !== null),
    bansBy: [...new Set(configurations.flatMap(({ ban, banBy = 'key' }) => (ban ? [banBy] : [])))],
    /** The denials after which it bans a key, and the length of the ban, or `null` if denials never ban. */
    banRule: banRuleOf(configurations) ?? null,
    /** Whether it limits how many requests run at once. */
    slots: traits.holdsSlots,
    /** The number of keys with other limits, or `null` if the limiter does not support overrides. */
    overridden: overridden?.keys ?? null,
    isOverridden: (overridden?.all ?? null) !== null,
    configurations: configurations.length,
    processes: instances.filter((each) => silentMs(each) === 0).length,
    /** The processes whose next publication is late, so that they may have ended. */
    silent: instances.filter((each) => silentMs(each) > 0).length,
    /** False if a store has `counts: false`. Null if that is unknown, because no decision was counted. */
    isCounted,
    rates: { admitted, denied, degraded, waiting, held, slots },
    /** The policies and reasons of the denials, the most frequent first. */
    causes: causes.sort((a, b) => b.denied - a.denied).slice(0, 3),
  };
}

function sparkOf({ admitted, denied, degraded, use }: Pick<LimiterHistory, Column | 'use'>) {
  // The number of times that a key rose to 70 % of a policy, in the worst of the last minutes.
  const near = Object.values(use).map((minutes) =>
    Math.max(0, ...minutes.slice(-NEAR_MINUTES).map((levels) => levels[NEAR_LEVEL] ?? 0)),
  );
  return { admitted, denied, degraded, near: Math.max(0, ...near) };
}
