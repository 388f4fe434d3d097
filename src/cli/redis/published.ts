import { publishedKey, type PublishedInstance, type PublishedLimiter } from '../../stores/publisher.js';
import { parsePolicies } from '../policy-text.js';
import type { Limits } from '../limits.js';
import type { Session } from './session.js';

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
  /** By name; the configuration that most instances have stands first. More than one: instances differ. */
  readonly scopes: ReadonlyMap<string, readonly Configuration[]>;

  constructor(instances: readonly Instance[]) {
    this.instances = instances;
    this.scopes = configurationsOf(instances);
  }

  static async read(session: Session): Promise<Published> {
    const index = publishedKey(session.prefix);
    const ids = (await session.call('ZRANGEBYSCORE', index, '-inf', '+inf')) as string[];
    const instances: Instance[] = [];
    for (let at = 0; at < ids.length; at += TOGETHER) {
      const some = ids.slice(at, at + TOGETHER);
      const texts = await Promise.all(
        some.map((id) => session.call('GET', publishedKey(session.prefix, id))),
      );
      texts.forEach((text, i) => instances.push(...read(some[i]!, text)));
    }
    return new Published(instances);
  }

  /** What limiters of a name enforce; undefined if nobody tells it, or it comes with each request. */
  limitsOf(name: string): Limits | undefined {
    const [most] = this.scopes.get(name) ?? [];
    if (!most || most.dynamic) return undefined;
    const policies = parsed(most.policies);
    return policies && { policies, shadow: most.shadow };
  }

  /** Those of all names. */
  limits(): ReadonlyMap<string, Limits> {
    const all = [...this.scopes.keys()].map((name) => [name, this.limitsOf(name)] as const);
    return new Map(all.filter((entry): entry is [string, Limits] => entry[1] !== undefined));
  }
}

/** None, if a newer version has policies that this one does not know. */
function parsed(texts: readonly string[]): Limits['policies'] | undefined {
  try {
    return texts.length > 0 ? parsePolicies(texts) : undefined;
  } catch {
    return undefined;
  }
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
      const { policies, ban, banBy, slotBy, shadow, dynamic } = configuration;
      // What comes with each request differs from one instance to the next as their requests do.
      const signature = JSON.stringify([dynamic ? [] : policies, ban, banBy, slotBy, shadow, dynamic]);
      const same = known.get(signature);
      if (same?.instances.at(-1) === instance) continue;
      if (same) same.instances.push(instance);
      else known.set(signature, { ...configuration, instances: [instance] });
    }
  }
  const names = [...scopes.keys()].sort();
  const byCount = (a: Configuration, b: Configuration): number => b.instances.length - a.instances.length;
  return new Map(names.map((name) => [name, [...scopes.get(name)!.values()].sort(byCount)]));
}
