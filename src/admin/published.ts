import { ALGORITHMS, countsSlots, validPolicies } from '../contract/compile-policies.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Policy } from '../contract/policy.js';
import type { PublishedInstance, PublishedLimiter } from '../stores/published.js';
import type { Limits } from './limits.js';

/** An instance of a store, and its publication. */
export interface Instance extends PublishedInstance {
  /** The id of the process, unique on the server. */
  readonly id: string;
}

/** The part of the time between two publications for which an instance may be late. */
const LATE_SHARE = 0.5;

/** The time since an instance published its limiters, ms, if the next publication is late: its process may have ended. Otherwise 0. */
export function silentMs({ at, every }: Pick<Instance, 'at' | 'every'>, now = Date.now()): number {
  const age = now - Date.parse(at);
  return every > 0 && age > (1 + LATE_SHARE) * every + GRACE_MS ? age : 0;
}

/** The time that a publication may need, ms. */
const GRACE_MS = 1000;

/** Limiters of one name with equal configurations. */
export interface Configuration extends Omit<PublishedLimiter, 'name'> {
  /** The processes with these options. Empty if only a database has them, as a process made the limiter last. */
  readonly instances: readonly Instance[];
}

/** Whether all processes with these configurations count decisions, or `null` if no process is known. */
export function isCountedIn(configurations: readonly Configuration[]): boolean | null {
  const instances = configurations.flatMap((each) => each.instances);
  return instances.length === 0 ? null : instances.every(({ counts }) => counts !== false);
}

/** The traits of a limiter's policies, in all of its configurations and tiers. */
export interface LimiterTraits {
  /** Whether a policy limits how many requests run at once, so that its units are slots. */
  readonly holdsSlots: boolean;
  /** Whether tenants share the limit of a policy. */
  readonly sharesLimits: boolean;
}

interface Source extends Pick<Published, 'mark' | 'isComplete'>, Partial<Pick<Published, 'problem'>> {
  /** The limiters that a database has, as a process made each last. */
  readonly stored?: readonly PublishedLimiter[];
}

/** The limiters that are published in Redis, that use the store in this process, or that processes left in a database. */
export class Published {
  readonly instances: readonly Instance[];
  /** The reason why publications cannot be read, or `undefined`. */
  readonly problem: string | undefined;
  /** Whether a missing limiter certainly does not exist in other processes. */
  readonly isComplete: boolean;
  /** The configurations by the limiter's name. The most common one comes first. If there are several, instances differ. */
  readonly scopes: ReadonlyMap<string, readonly Configuration[]>;
  /** The mark of the secret by which this state hashes keys. */
  readonly mark: string | undefined;

  constructor(instances: readonly Instance[], { mark, isComplete, problem, stored = [] }: Source) {
    this.instances = instances;
    this.mark = mark;
    this.isComplete = isComplete;
    this.problem = problem;
    this.scopes = configurationsOf(instances, stored);
  }

  /** The limits of a name's limiters, or `undefined` if they are not published, or depend on the request. */
  limitsOf(name: string): Limits | undefined {
    const [most] = this.scopes.get(name) ?? [];
    return most && this.limitsIn(name, most);
  }

  /** The same of one of the name's configurations. */
  limitsIn(name: string, configuration: Configuration): Limits | undefined {
    if (configuration.dynamic) return undefined;
    const named = Object.entries(configuration.tiers ?? {}).map(
      ([tier, texts]) => [tier, parsed(texts)] as const,
    );
    const tiers = new Map(named.filter((entry): entry is [string, Policy[]] => entry[1] !== undefined));
    const policies = parsed(configuration.policies);
    if (!policies && tiers.size === 0) return undefined;
    const overrides = this.scopes.get(name)!.some((each) => each.overrides);
    return { policies: policies ?? [], tiers, shadow: configuration.shadow, overrides };
  }

  limits(name?: string): ReadonlyMap<string, Limits> {
    const names = name === undefined ? [...this.scopes.keys()] : [name];
    const all = names.map((each) => [each, this.limitsOf(each)] as const);
    return new Map(all.filter((entry): entry is [string, Limits] => entry[1] !== undefined));
  }
}

/** The policies, or `undefined` if a newer version published unknown policies. */
function parsed(texts: readonly string[]): Policy[] | undefined {
  try {
    return texts.length > 0 ? validPolicies('policies', texts) : undefined;
  } catch {
    return undefined;
  }
}

/** Each policy of configurations and tiers, or `undefined` for one of a newer version. */
const eachIn = (configurations: readonly Configuration[]): (Policy[] | undefined)[] =>
  configurations
    .flatMap(({ policies, tiers = {} }) => [...policies, ...Object.values(tiers).flat()])
    .map((text) => parsed([text]));

/** The policies of configurations and their tiers, without those of a newer version. */
export const policiesIn = (configurations: readonly Configuration[]): Policy[] =>
  eachIn(configurations).flatMap((each) => each ?? []);

/** The dimensions by which policies count. Undefined if policies depend on the request, or a newer version has published some. */
export function dimensionsOfPolicies(
  configurations: readonly Configuration[],
): ReadonlySet<string> | undefined {
  if (configurations.some(({ dynamic }) => dynamic) || eachIn(configurations).includes(undefined))
    return undefined;
  return new Set(policiesIn(configurations).map(({ by = DEFAULT_DIMENSION }) => by));
}

export function dimensionsOfBans(configurations: readonly Configuration[]): string[] {
  return configurations.flatMap(({ ban, banBy = DEFAULT_DIMENSION }) => (ban ? [banBy] : []));
}

/** The dimensions by which the policies and the bans of a limiter count. */
export function dimensionsIn(configurations: readonly Configuration[]): string[] {
  const ofPolicies = policiesIn(configurations).map(({ by = DEFAULT_DIMENSION }) => by);
  return [...new Set([...ofPolicies, ...dimensionsOfBans(configurations)])];
}

export function traitsOf(configurations: readonly Configuration[]): LimiterTraits {
  const policies = policiesIn(configurations);
  return {
    holdsSlots: policies.some(isOfSlots),
    sharesLimits: policies.some((policy) => 'share' in policy && policy.share !== undefined),
  };
}

export const isOfSlots = ({ algorithm }: Policy): boolean =>
  algorithm !== undefined && ALGORITHMS.includes(algorithm) && countsSlots(algorithm);

/** Parses a publication. The result is empty if the instance has ended in the meantime, or cannot be read. */
export function parseInstance(id: string, text: unknown): Instance[] {
  if (typeof text !== 'string') return [];
  try {
    const instance = JSON.parse(text) as PublishedInstance;
    return Array.isArray(instance.limiters) ? [{ ...instance, id }] : [];
  } catch {
    return [];
  }
}

function configurationsOf(
  instances: readonly Instance[],
  stored: readonly PublishedLimiter[],
): Map<string, Configuration[]> {
  const scopes = new Map<string, Map<string, Configuration & { instances: Instance[] }>>();
  const votes = punctual(instances);
  for (const instance of instances) {
    for (const { name, ...configuration } of instance.limiters) {
      const known = scopes.get(name) ?? new Map<string, Configuration & { instances: Instance[] }>();
      scopes.set(name, known);
      const { policies, tiers, ban, banBy, slotBy, shadow, dynamic, overrides, ipv6Subnets } = configuration;
      // Policies that depend on requests differ between instances as the requests do, so they are not compared.
      const own = dynamic ? [] : policies;
      const enforced = [own, tiers, ban, banBy, slotBy, shadow, dynamic, overrides, ipv6Subnets];
      const signature = JSON.stringify(enforced);
      const same = known.get(signature);
      if (same?.instances.at(-1) === instance) continue;
      if (same) same.instances.push(instance);
      else known.set(signature, { ...configuration, instances: [instance] });
    }
  }
  for (const { name, ...configuration } of stored)
    if (!scopes.has(name)) scopes.set(name, new Map([['', { ...configuration, instances: [] }]]));
  const names = [...scopes.keys()].sort();
  return new Map(names.map((name) => [name, inOrder(scopes.get(name)!, votes)]));
}

/** The most common configuration first. Equally common ones always have the same order. @param votes the instances that count */
function inOrder(
  bySignature: ReadonlyMap<string, Configuration>,
  votes: ReadonlySet<Instance>,
): Configuration[] {
  const countOf = ({ instances }: Configuration): number =>
    instances.filter((each) => votes.has(each)).length;
  return [...bySignature]
    .sort(([a, one], [b, other]) => countOf(other) - countOf(one) || (a < b ? -1 : 1))
    .map(([, configuration]) => configuration);
}

/** The time after which a publication is overdue, ms, because clocks differ and processes are busy. */
const TOLERANCE_MS = 10_000;

/** The instances that have published as often as they should, so that ended ones do not outvote their successors. */
function punctual(instances: readonly Instance[]): ReadonlySet<Instance> {
  const newest = Math.max(...instances.map(({ at }) => Date.parse(at) || 0));
  const isLate = ({ at, every }: Instance): boolean =>
    every > 0 && newest - Date.parse(at) > every + TOLERANCE_MS;
  return new Set(instances.filter((each) => !isLate(each)));
}
