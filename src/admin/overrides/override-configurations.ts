// Overrides while the processes of a limiter have different policies, such as during a deployment.
import { HeadgateError, show, withoutPage } from '../../common/errors.js';
import type { Limiter } from '../../limiter/limiter.js';
import { reasonOf } from '../redis/calls.js';
import { limiterOn, withLimiter } from '../limiters.js';
import { keyFor, limiterFor, type Found } from './override-scope.js';
import type { Configuration, Published } from '../published.js';
import type { AdminWarning } from '../scope.js';
import type { State } from '../state.js';

/** A configuration of a limiter, apart from the most common one. */
interface Other {
  readonly configuration: Configuration;
  /** A limiter with these policies. Undefined if a newer version published them. */
  readonly limiter: Limiter | undefined;
}

/** The limiter of a name for changes of overrides, and the other configurations of its processes. */
interface Overriding {
  readonly limiter: Limiter;
  readonly others: readonly Other[];
  /** The reason why a change since the last call could not be recorded. Undefined if all were. */
  takeUnnoted(): string | undefined;
}

/**
 * Uses a limiter for overrides with the limits for the policies of all configurations.
 *
 * @param undoes the id of the logged change that overrides undo
 * @throws HeadgateError as `limiterFor`
 */
export function withOverriding<T>(
  { state, published, name, undoes }: OverridingOf,
  use: (overriding: Overriding) => Promise<T>,
): Promise<T> {
  let unnoted: string | undefined;
  const changes = {
    ...(undoes !== undefined && { undoes }),
    onUnnoted: (error: Error): void => void (unnoted = reasonOf(error)),
  };
  const takeUnnoted = (): string | undefined => {
    const reason = unnoted;
    unnoted = undefined;
    return reason;
  };
  const limiter = limiterFor(state, published, name, changes);
  return withLimiter(limiter, async () => {
    const others: Other[] = [];
    try {
      for (const configuration of (published.scopes.get(name) ?? []).slice(1)) {
        const limits = configuration.overrides ? published.limitsIn(name, configuration) : undefined;
        const isKnown = limits !== undefined || (configuration.overrides && configuration.dynamic);
        others.push({ configuration, limiter: isKnown ? limiterOn(state, name, limits) : undefined });
      }
      limiter.overrides.include(others.flatMap((other) => (other.limiter ? [other.limiter.overrides] : [])));
      return await use({ limiter, others, takeUnnoted });
    } finally {
      await Promise.all(others.flatMap(({ limiter: each }) => (each ? [each.close()] : [])));
    }
  });
}

interface OverridingOf {
  readonly state: State;
  readonly published: Published;
  readonly name: string;
  readonly undoes?: string | undefined;
}

/** The warnings of a change of an override about processes with other policies, or without an effect. */
export function doubtsOfOthers({ limiter, others }: Overriding, { wish, ...whose }: Found): AdminWarning[] {
  const { change } = wish;
  if (change === undefined || others.length === 0) return [];
  const name = JSON.stringify(limiter.name);
  const message = `the processes have ${others.length + 1} different configurations of ${name}. Each applies the change to its own policies.`;
  const unfit = others.flatMap((other): AdminWarning[] => {
    const key = keyFor(whose);
    const why = refusalIn(other, () => other.limiter!.overrides.check(key, change, {}));
    if (why === undefined) return [];
    const { overrides } = limiter;
    const names = other.limiter ? overrides.reaches(other.limiter.overrides, key, change) : [];
    return [{ code: 'UNFIT_OVERRIDE', message: `${effectIn(other, names)} of ${name}: ${why}` }];
  });
  return [{ code: 'DIFFERENT', message }, ...unfit];
}

/** The effect of a change on the processes with a configuration. @param names the policies that the change concerns nevertheless */
function effectIn({ configuration }: Other, names: readonly string[]): string {
  const { length } = configuration.instances;
  const which = length === 1 ? 'a process' : `${length} processes`;
  if (names.length === 0) return `${which} ${length === 1 ? 'keeps its' : 'keep their'} limits`;
  return `${which} ${length === 1 ? 'changes' : 'change'} only ${names.map(show).join(', ')}`;
}

/** The reason why the processes with a configuration do not apply a change. */
function refusalIn({ configuration, limiter }: Other, check: () => void): string | undefined {
  if (!configuration.overrides) return 'the option `overrides` is missing.';
  if (!limiter) return 'a newer version published the policies.';
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof HeadgateError) return withoutPage(error.message);
    throw error;
  }
}
