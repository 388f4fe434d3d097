import type { Warn } from '../common/warnings.js';
import type { PolicySet, Store } from '../contract/store.js';
import type { Lifetime } from './lifetime.js';
import type { LiveLimits } from './live-limits.js';
import type { LimiterOptions } from './options.js';
import type { Scope } from './scope.js';
import type { FirstQuestion } from './setup-checks.js';
import type { Enabled } from './enabled.js';
import type { Tiers } from './tiers.js';

export interface CheckedOptions {
  readonly life: Lifetime;
  readonly set: PolicySet;
  readonly tiers: Tiers;
  readonly scope: Scope;
  /** The user's store. `store` is the same store with its guard. */
  readonly source: Store;
  readonly store: Store;
  readonly shadow: boolean;
  readonly enabled: Enabled;
  readonly warn: Warn;
  readonly onDecision: LimiterOptions['onDecision'];
  /** Checks the limiter's first questions for a mistake in the set-up. Undefined if there is nothing to check. */
  readonly firstQuestion: FirstQuestion | undefined;
  readonly live: LiveLimits | undefined;
  readonly waiting: readonly [most: number, mostPerKey: number];
  /** Whether the user has bounded the lines. */
  readonly isWaitingBounded: boolean;
  readonly release: () => void;
}
