// The limiters and policies that an override can change.
import { HeadgateError } from '../common/errors.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Policy } from '../contract/policy.js';
import type { Limiter } from '../limiter/limiter.js';
import type { OverrideChange } from '../limiter/overrides/override.js';
import { limiterOn } from './limiters.js';
import type { Published } from './published.js';
import { unknownScope } from './scope.js';
import type { State } from './state.js';
import { wrongArgument } from './typed-keys.js';

/** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` for a dimension that only shares limits */
export function checkNoTenant(dimension: string, policies: readonly Policy[]): void {
  if (policies.some(({ by = DEFAULT_DIMENSION }) => by === dimension)) return;
  const shared = policies.find((policy) => 'share' in policy && policy.share === dimension);
  if (!shared) return;
  const { by = DEFAULT_DIMENSION } = shared;
  throw wrongArgument(
    `dimension: keys of '${dimension}' share the limit of a key of '${by}', and have no limit of their own. Their weights come from their ` +
      `requests, their overrides or the policy, and only the program can override one: limiter.override({ ${by}, ${dimension} }, { weight: 5 }). To ` +
      `change the whole limit, pass a key of '${by}'.`,
  );
}

/** Checks each policy separately, if the limiter's policies are unknown. */
export function checkTexts(change: OverrideChange): void {
  const texts: unknown[] =
    typeof change === 'string' ? [change] : 'tier' in change ? [] : Object.values(change);
  for (const text of texts) if (typeof text === 'string') compilePolicies('override', [text]);
}

/** A limiter of the scope that supports overrides. @throws HeadgateError `HEADGATE_UNKNOWN_LIMITER`, `HEADGATE_OVERRIDES` */
export function limiterFor(
  state: State,
  published: Published,
  name: string,
  undoes: string | undefined,
): Limiter {
  const [configuration] = published.scopes.get(name) ?? [];
  if (!configuration) {
    // A file does not contain the limiter's policies. The limiter reports a change that does not fit them.
    if (!published.isShared) return limiterOn(state, name, undefined, { undoes });
    const doubt = unknownScope(published, name)?.message ?? 'the limiters are unknown.';
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_LIMITER',
      `${doubt} An override depends on the policies of the limiter, so nothing was changed.`,
    );
  }
  if (!published.scopes.get(name)!.some(({ overrides }) => overrides)) {
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      `the limiter ${JSON.stringify(name)} does not have the option \`overrides\`, so it reads no overrides. Create it with overrides: true.`,
    );
  }
  const limits = published.limitsOf(name);
  if (!limits && !configuration.dynamic)
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_LIMITER',
      `the policies of ${JSON.stringify(name)} cannot be read, because a newer version published them.`,
    );
  return limiterOn(state, name, limits, { undoes });
}
