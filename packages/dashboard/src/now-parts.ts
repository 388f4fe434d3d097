import { banRuleOf, silentMs, type LimiterRates, type LimiterView, type Traffic } from 'headgate/admin';
import type { Columns, Minutes } from './minutes.js';

/** The minutes in which keys near their limit are counted, and the level of their use: `USE_LEVELS[14]`, 71 %. */
const NEAR_MINUTES = 5;
const NEAR_LEVEL = 14;

const MAX_PROCESSES = 200;

/** The traits of a limiter that is not published. */
const UNKNOWN = { holdsSlots: false, sharesLimits: false };

const QUIET = { admitted: 0, denied: 0, degraded: 0, waiting: 0, held: 0, slots: 0 } as const;

/** The state that the page shows, by the names of its parts. Parts are sent separately, when they change. */
export type Parts = Readonly<Record<string, unknown>>;

/** The time since the last publication of a process, ms, if the next one is late. Otherwise 0. */
export type SilentMs = typeof silentMs;

/** @param silentFor returns the silence of a process */
export function partsOf(
  limiters: readonly LimiterView[],
  traffic: Traffic,
  minutes: Minutes,
  silentFor: SilentMs = silentMs,
): Parts {
  const counted = new Map(traffic.limiters.map((each) => [each.name, each]));
  const known = new Set(limiters.map(({ name }) => name));
  // A limiter that counts and is not published, such as one of an earlier version.
  const others = traffic.limiters.filter(({ name }) => !known.has(name)).map(({ name }) => name);
  const rows = [
    ...limiters.map((view) => {
      const isKnown = counted.has(view.name) || minutes.limiters.has(view.name);
      const isCounted = view.isCounted ?? (isKnown || null);
      return rowOf({ ...view, isCounted }, counted.get(view.name), silentFor);
    }),
    ...others.map((name) =>
      rowOf({ name, configurations: [], isCounted: true, traits: UNKNOWN }, counted.get(name), silentFor),
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
    instances: instancesOf(limiters, silentFor),
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

function instancesOf(limiters: readonly LimiterView[], silentFor: SilentMs): ProcessRow[] {
  const rows = new Map<string, ProcessRow>();
  for (const { name, configurations } of limiters)
    for (const [i, { instances }] of configurations.entries())
      for (const instance of instances) {
        const { host, pid, version } = instance;
        const id = `${host} ${pid}`;
        const silent = silentFor(instance);
        const row = rows.get(id) ?? { host, pid, version, silentMs: silent, names: [], differing: [] };
        rows.set(id, row);
        row.names.push(name);
        if (i > 0) row.differing.push(name);
      }
  return [...rows.values()].slice(0, MAX_PROCESSES);
}

/** A row of the first screen. */
function rowOf(view: LimiterView, counted: LimiterRates | undefined, silentFor: SilentMs) {
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
    processes: instances.filter((each) => silentFor(each) === 0).length,
    /** The processes whose next publication is late, so that they may have ended. */
    silent: instances.filter((each) => silentFor(each) > 0).length,
    /** False if a store has `counts: false`. Null if that is unknown, because no decision was counted. */
    isCounted,
    rates: { admitted, denied, degraded, waiting, held, slots },
    /** The policies and reasons of the denials, the most frequent first. */
    causes: causes.sort((a, b) => b.denied - a.denied).slice(0, 3),
  };
}

function sparkOf({ use, ...columns }: Columns) {
  // The number of times that a key rose to 70 % of a policy, in the worst of the last minutes.
  const near = Object.values(use).map((minutes) =>
    Math.max(0, ...minutes.slice(-NEAR_MINUTES).map((levels) => levels[NEAR_LEVEL] ?? 0)),
  );
  return { ...columns, near: Math.max(0, ...near) };
}
