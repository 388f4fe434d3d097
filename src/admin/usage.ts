import { checkShape } from '../common/validate.js';
import { kindOfHash } from '../stores/keys.js';
import { checkName, type Context, type NameFilter } from './context.js';
import type { Whose } from './owners.js';
import type { FoundKey, Search } from './state.js';

/** The state of a limiter whose size is measured. Others are assumed to be of the same size. */
const MAX_MEASURED = 200;

/** The keys and the memory of one limiter. */
export interface LimiterUsage {
  /** The name of the limiter. */
  readonly name: Whose['name'];
  /** The number of states: one for each key and policy, and one for each ban. */
  readonly states: number;
  /**
   * The bytes that they take in the store, estimated from a sample. Null if the store cannot tell: a memory store, or a user of Redis without
   * permission for `MEMORY USAGE`.
   */
  readonly bytes: number | null;
}

/** Options of `usage`. */
export type UsageOptions = NameFilter & Pick<Search, 'count' | 'progress' | 'signal'>;

interface Count {
  readonly name: Whose['name'];
  states: number;
  measured: number;
  bytes: number;
}

export async function usage({ state }: Context, options: UsageOptions = {}): Promise<LimiterUsage[]> {
  checkShape('usage', options, ['name', 'count', 'progress', 'signal']);
  if (options.name !== undefined) checkName(options.name);
  const counts = new Map<string, Count>();
  for await (const page of state.search(options)) {
    const sample: [Count, FoundKey][] = [];
    for (const found of page) {
      const { scope, name } = found.owner;
      let count = counts.get(scope);
      if (!count) counts.set(scope, (count = { name, states: 0, measured: 0, bytes: 0 }));
      count.states++;
      const planned = sample.filter(([each]) => each === count).length;
      if (count.measured + planned < MAX_MEASURED) sample.push([count, found]);
    }
    const sizes = await state.bytes(sample.map(([, found]) => found));
    for (const [i, [count]] of sample.entries()) {
      const size = sizes[i];
      if (size === undefined) continue;
      count.measured++;
      count.bytes += size;
    }
  }
  const all = [...counts.values()].map(({ name, states, measured, bytes }) => ({
    ...{ name, states },
    bytes: measured === 0 ? null : Math.round((bytes / measured) * states),
  }));
  return all.sort((a, b) => b.states - a.states || (textOf(a.name) < textOf(b.name) ? -1 : 1));
}

const textOf = (name: Whose['name']): string =>
  typeof name === 'string' ? name : `${kindOfHash(name.hash)}:${name.hash}`;
