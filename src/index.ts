export { createLimiter } from './limiter/create-limiter.js';
export type {
  CommonOptions,
  ConsumeOptions,
  CreateLimiterOptions,
  HoldOptions,
  InlinePolicy,
  JointPolicies,
  LimiterOptions,
  OnlyTiers,
  RequestOptions,
  TierOption,
  WaitOptions,
} from './limiter/options.js';
export type { Limiter } from './limiter/limiter.js';
export { consumeAll, type Ask, type JointDecision } from './limiter/consume-all.js';
export type { Cost } from './contract/costs.js';
export type { Key } from './contract/key.js';
export { memoryStore, type MemoryStore, type MemoryStoreOptions } from './stores/memory/memory.js';
export { HeadgateError, type ErrorCode } from './common/errors.js';
export type {
  Admission,
  AdmittedDecision,
  Decision,
  DecisionFields,
  DenialBecause,
  DenialForGood,
  DenialForNow,
  DeniedDecision,
  Reason,
  Verdict,
} from './common/decision.js';
export type { PolicyChange } from './features/overrides/contract/change-policy.js';
export type { Override, OverrideChange, OverrideNote } from './limiter/overrides/override.js';
export type { PolicyUsage, Usage } from './limiter/usage.js';
export type { FailureOptions } from './limiter/guard/guard-options.js';
export type { Gauges } from './contract/gauges.js';
export type { Health } from './contract/health.js';
export type { TierOptions } from './limiter/tiers.js';
export { WARNING_CODES, type WarningCode, type Warnings } from './common/warnings.js';
export type { Duration } from './common/duration.js';
export type { BanOptions, UnbanOptions } from './features/bans/contract/ban-options.js';
export type { ChangeNoteOptions as BanNoteOptions } from './contract/change-note.js';
export { parsePolicy, policyText } from './contract/compile-policies.js';
export type { Policies, PolicyText, StrictPolicies } from './contract/policy.js';
export type {
  Algorithm,
  CalendarPolicy,
  ConcurrencyPolicy,
  FixedWindowPolicy,
  LeakyBucketPolicy,
  EitherLimitOrPolicies,
  NoPolicy,
  NotOfThisAlgorithm,
  Policy,
  StrictPolicy,
  SlidingLogPolicy,
  SlidingWindowPolicy,
  TokenBucketPolicy,
} from './algorithms/index.js';
export type { Clock, Store } from './contract/store.js';
export type { ThresholdEvent } from './features/thresholds/contract/crossing.js';
