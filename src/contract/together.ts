import { HeadgateError, invalidOption, type ErrorCode } from '../common/errors.js';

/** The features that options can combine. docs/together.md links to this list. */
export const FEATURE_NAMES = [
  ...['sliding-window', 'fixed-window', 'sliding-log', 'token-bucket', 'leaky-bucket', 'gcra', 'calendar'],
  ...['concurrency', 'several policies', 'dimensions', 'tiers', 'costs by policy', 'attempts', 'shadow'],
  ...['shares of units', 'shares of slots', 'weights', 'thresholds', 'thresholds as a stream', 'request ids'],
  ...['bans by denials', 'bans by hand', 'fresh bans', 'overrides of a key', 'overrides of a dimension'],
  ...['overrides of all keys', 'overrides by tier', 'overrides of a window', 'refund', 'settle', 'cancel'],
  ...['wait', 'wrapped functions', 'maxDelay', 'slices', 'localDenials', 'acrossSlots', 'slotBy', 'hashKeys'],
  ...["onStoreError: 'local'", "onStoreError: 'allow'", "onStoreError: 'deny'", "onStoreError: 'throw'"],
  ...['usage', 'peek', 'reset'],
] as const;

export type FeatureName = (typeof FEATURE_NAMES)[number];

/** Features that do not go together, and the error. Each feature of `features` is refused beside each of `beside`. */
export interface Refusal {
  readonly features: readonly FeatureName[];
  readonly beside: readonly FeatureName[];
  /** The scope of the refusal: one policy, one limiter, a limiter on a Redis Cluster, or an HTTP adapter's options. */
  readonly within: 'policy' | 'limiter' | 'cluster' | 'adapter';
  readonly code: ErrorCode;
  /** The reason and the fix, as the error shows them. */
  readonly reason: string;
}

const SHARES = ['shares of units', 'shares of slots'] as const;
const STREAM = ['thresholds as a stream'] as const;

const needsAllVerdicts = (beside: readonly FeatureName[], option: string): Refusal => ({
  ...{ features: ['acrossSlots'], beside, within: 'cluster', code: 'HEADGATE_DIMENSIONS' },
  reason: `${option} needs the verdicts on all keys at once. Set slotBy instead of acrossSlots, or omit ${option}.`,
});

/** Every refusal of two features together, apart from fields that an algorithm lacks. The checks of options throw `refusal`. */
export const REFUSALS = {
  sharedAttempts: {
    ...{
      features: ['shares of units'],
      beside: ['attempts'],
      within: 'policy',
      code: 'HEADGATE_INVALID_OPTION',
    },
    reason: 'A shared limit counts only admitted requests. Omit `count` or `share`.',
  },
  sharedThresholds: {
    ...{
      features: SHARES,
      beside: ['thresholds', ...STREAM],
      within: 'policy',
      code: 'HEADGATE_INVALID_OPTION',
    },
    reason:
      "A tenant's part of a shared limit changes with the demand of the others. Put thresholds on a policy by the tenant.",
  },
  sharedSlots: {
    ...{
      features: SHARES,
      beside: ['slotBy', 'acrossSlots'],
      within: 'limiter',
      code: 'HEADGATE_INVALID_OPTION',
    },
    reason:
      'The tenants of a policy with `share` are in the slot of its limit. Give that policy a limiter of its own.',
  },
  pacedAttempts: {
    ...{ features: ['maxDelay'], beside: ['attempts'], within: 'policy', code: 'HEADGATE_INVALID_OPTION' },
    reason: 'A denied request has no turn to wait for. Omit `maxDelay` or `count`.',
  },
  heldIds: {
    features: ['request ids'],
    beside: ['concurrency', 'shares of slots'],
    ...{ within: 'limiter', code: 'HEADGATE_INVALID_OPTION' },
    reason: 'A repetition cannot hold the same slot. Create another limiter for concurrency.',
  },
  waitingIds: {
    ...{ features: ['request ids'], beside: ['wait'], within: 'adapter', code: 'HEADGATE_INVALID_OPTION' },
    reason: 'Pass one of them, because a request with an id cannot wait in line.',
  },
  twoSlots: {
    ...{ features: ['acrossSlots'], beside: ['slotBy'], within: 'limiter', code: 'HEADGATE_INVALID_OPTION' },
    reason: 'Use one of them.',
  },
  attemptsAcross: needsAllVerdicts(['attempts'], "count: 'attempts'"),
  bansAcross: needsAllVerdicts(['bans by denials', 'fresh bans'], 'ban: { after }'),
  idsAcross: {
    ...{ features: ['acrossSlots'], beside: ['request ids'], within: 'cluster', code: 'HEADGATE_DIMENSIONS' },
    reason:
      'these policies count by keys in several slots of the cluster, which cannot remember an id in one step. Set slotBy, or omit the id.',
  },
  streamInCluster: {
    features: ['acrossSlots'],
    beside: STREAM,
    ...{ within: 'cluster', code: 'HEADGATE_INVALID_OPTION' },
    reason:
      'In a cluster the stream and the keys of a decision are in different slots. Omit it, and use onThreshold.',
  },
} satisfies Record<string, Refusal>;

/**
 * The error for two features that do not go together.
 *
 * @param option the option that the error names
 * @param given the option's value
 */
export function refusal(name: keyof typeof REFUSALS, option: string, given?: unknown): HeadgateError {
  const { code, reason } = REFUSALS[name];
  return code === 'HEADGATE_INVALID_OPTION'
    ? invalidOption(option, given, reason)
    : new HeadgateError(code, `${option}: ${reason}`);
}
