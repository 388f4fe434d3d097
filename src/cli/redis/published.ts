import { publishedKey, type PublishedInstance, type PublishedLimiter } from '../../stores/redis/publisher.js';
import type { Policy } from '../../contract/policy.js';
import { parsePolicies } from '../policy-text.js';
import type { Limits } from '../limits.js';
import type { Io } from '../io.js';
import { warn } from '../warn.js';
import { OtherKeyError, type Session } from './session.js';

/** An instance of a store, and what it tells of itself. */
export interface Instance extends PublishedInstance {
  readonly id: string;
}

/** Limiters of one name that are alike. */
export interface Configuration extends Omit<PublishedLimiter, 'name'> {
  readonly instances: readonly Instance[];
}

/** How many are read at a time. */
const TOGETHER = 100;

/** The limiters that tell Redis of themselves. */
export class Published {
  readonly instances: readonly Instance[];
  /** Why nothing of them can be read; undefined if it can. */
  readonly problem: string | undefined;
  /** By name; the configuration that most instances have stands first. More than one: instances differ. */
  readonly scopes: ReadonlyMap<string, readonly Configuration[]>;
  /** Of the secret that this command hashes keys with. */
  readonly mark: string | undefined;

  constructor(instances: readonly Instance[], mark: string | undefined, problem?: string) {
    this.instances = instances;
    this.mark = mark;
    this.problem = problem;
    this.scopes = configurationsOf(instances);
  }

  /** Without them the commands work on, as where limiters tell nothing. */
  static async read(session: Session, io: Io): Promise<Published> {
    const index = publishedKey(session.prefix);
    let problem: string | undefined;
    const ids = await session.call('ZRANGEBYSCORE', index, '-inf', '+inf').then(
      (found) => found as string[],
      (error: unknown) => {
        if (!(error instanceof OtherKeyError)) throw error;
        problem = `which limiters there are is not known: ${error.message}`;
        warn(io, { code: 'UNREADABLE', message: problem });
        return [];
      },
    );
    const instances: Instance[] = [];
    for (let at = 0; at < ids.length; at += TOGETHER) {
      const some = ids.slice(at, at + TOGETHER);
      const texts = await Promise.all(
        some.map((id) => session.call('GET', publishedKey(session.prefix, id)).catch(ofOther)),
      );
      texts.forEach((text, i) => instances.push(...read(some[i]!, text)));
    }
    return new Published(instances, session.hashing.mark, problem);
  }

  /** What limiters of a name enforce; undefined if nobody tells it, or it comes with each request. */
  limitsOf(name: string): Limits | undefined {
    const [most] = this.scopes.get(name) ?? [];
    if (!most || most.dynamic) return undefined;
    const named = Object.entries(most.tiers ?? {}).map(([tier, texts]) => [tier, parsed(texts)] as const);
    const tiers = new Map(named.filter((entry): entry is [string, Policy[]] => entry[1] !== undefined));
    const policies = parsed(most.policies);
    return policies || tiers.size > 0 ? { policies: policies ?? [], tiers, shadow: most.shadow } : undefined;
  }

  /** Those of all names. */
  limits(): ReadonlyMap<string, Limits> {
    const all = [...this.scopes.keys()].map((name) => [name, this.limitsOf(name)] as const);
    return new Map(all.filter((entry): entry is [string, Limits] => entry[1] !== undefined));
  }
}

/** None, if a newer version has policies that this one does not know. */
function parsed(texts: readonly string[]): Policy[] | undefined {
  try {
    return texts.length > 0 ? parsePolicies(texts) : undefined;
  } catch {
    return undefined;
  }
}

/** What stands where an instance should is none. */
function ofOther(error: unknown): undefined {
  if (!(error instanceof OtherKeyError)) throw error;
}

/** None of what has ended meanwhile, or is not to be understood. */
function read(id: string, text: unknown): Instance[] {
  if (typeof text !== 'string') return [];
  try {
    const instance = JSON.parse(text) as PublishedInstance;
    return Array.isArray(instance.limiters) ? [{ ...instance, id }] : [];
  } catch {
    return [];
  }
}

function configurationsOf(instances: readonly Instance[]): Map<string, Configuration[]> {
  const scopes = new Map<string, Map<string, Configuration & { instances: Instance[] }>>();
  for (const instance of instances) {
    for (const { name, ...configuration } of instance.limiters) {
      const known = scopes.get(name) ?? new Map<string, Configuration & { instances: Instance[] }>();
      scopes.set(name, known);
      const { policies, tiers, ban, banBy, slotBy, shadow, dynamic, ipv6Subnets } = configuration;
      // What comes with each request differs from one instance to the next as their requests do.
      const enforced = [dynamic ? [] : policies, tiers, ban, banBy, slotBy, shadow, dynamic, ipv6Subnets];
      const signature = JSON.stringify(enforced);
      const same = known.get(signature);
      if (same?.instances.at(-1) === instance) continue;
      if (same) same.instances.push(instance);
      else known.set(signature, { ...configuration, instances: [instance] });
    }
  }
  const names = [...scopes.keys()].sort();
  return new Map(names.map((name) => [name, inOrder(scopes.get(name)!)]));
}

/** The most common first; those that are as common always in the same order. */
function inOrder(bySignature: ReadonlyMap<string, Configuration>): Configuration[] {
  return [...bySignature]
    .sort(([a, one], [b, other]) => other.instances.length - one.instances.length || (a < b ? -1 : 1))
    .map(([, configuration]) => configuration);
}
