export {
  createLimiter,
  type CommonOptions,
  type ConsumeOptions,
  type CreateLimiterOptions,
  type HoldOptions,
  type JointPolicies,
  type Limiter,
  type LimiterOptions,
  type OnlyTiers,
  type TierOption,
  type WaitOptions,
} from './limiter.js';
export { consumeAll, type Dimension, type JointDecision } from './all.js';
export type { Key } from './dimensions.js';
export { memoryStore, type MemoryStore, type MemoryStoreOptions } from './stores/memory.js';
export { HeadgateError, type ErrorCode } from './errors.js';
export type { Decision, Reason, Verdict } from './decision.js';
export type { FailureOptions } from './stores/failure.js';
export type { Health } from './stores/health.js';
export type { TierOptions } from './tiers.js';
export { WARNING_CODES, type WarningCode, type Warnings } from './warnings.js';
export type { Duration } from './duration.js';
export type { BanNoteOptions, BanOptions, CompiledBan } from './ban.js';
export {
  parsePolicy,
  policyText,
  type CompiledPolicy,
  type Policies,
  type StrictPolicies,
} from './policy.js';
export type {
  Algorithm,
  CalendarPolicy,
  ConcurrencyPolicy,
  FixedWindowPolicy,
  Kernel,
  LeakyBucketPolicy,
  Params,
  NoPolicy,
  Policy,
  StrictPolicy,
  SlidingLogPolicy,
  SlidingWindowPolicy,
  TokenBucketPolicy,
  Traits,
} from './algorithms/index.js';
export type {
  Announced,
  Announcement,
  BanNote,
  Clock,
  Dimensions,
  Keys,
  Query,
  Reply,
  Change,
  ChangeReply,
  Charged,
  LeaseChange,
  MaybePromise,
  PolicySet,
  Store,
  Subject,
} from './stores/store.js';
