export {
  createLimiter,
  type CommonOptions,
  type ConsumeOptions,
  type CreateLimiterOptions,
  type HoldOptions,
  type Limiter,
  type LimiterOptions,
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
export type { WarningCode, Warnings } from './warnings.js';
export type { Duration } from './duration.js';
export type { BanNoteOptions, BanOptions, CompiledBan } from './ban.js';
export { parsePolicy, policyText, type CompiledPolicy, type Policies } from './policy.js';
export type {
  Algorithm,
  ConcurrencyPolicy,
  FixedWindowPolicy,
  Kernel,
  LeakyBucketPolicy,
  Params,
  Policy,
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
