/**
 * Views and changes for operators, over Redis, SQLite and memory. See https://github.com/headgate/headgate/blob/main/docs/admin.md.
 *
 * @module
 */
export { createAdmin, type Admin, type AdminOptions, type AdminSource } from './admin/create-admin.js';
export * from './admin/bans/ban-exports.js';
export * from './admin/overrides/override-exports.js';
export { contentOf, dimensionJson, factJson, textOrHash, whoseJson } from './admin/lines.js';
export type { ChangeOptions, KeyChangeOptions, NameFilter, NameOption } from './admin/context.js';
export { lacksSlots, useIn, type KeyVerdictFind, type JudgedKey, type PolicyVerdict } from './admin/finds.js';
export { ofTier, parseLimits, type GivenLimits, type Limits } from './admin/limits.js';
export type { DenialOptions, MinuteDenials, PastDenials } from './admin/denials.js';
export type { History, HistoryOptions, LimiterHistory, Outage } from './admin/history.js';
export type { KeyView, ProcessQueue, SlotUse } from './admin/key-view.js';
export type { KeyViewOptions } from './admin/key.js';
export type { OtherDenial } from './admin/denied-now.js';
export type { TenantsOptions, TenantView } from './admin/tenants.js';
export { CHANGE_ACTIONS, type ImportedKey, type LoggedChange, type LogOptions } from './admin/log.js';
export { identityOf, kindOfHash, type Hash, type Whose, type WhoseKey } from './admin/owners.js';
export {
  dimensionsOfPolicies,
  silentMs,
  type Configuration,
  type Instance,
  type LimiterTraits,
} from './admin/published.js';
export type { KeyQueueView, QueuesView } from './admin/queues.js';
export type { ResetOptions, ResetResult } from './admin/resets.js';
export type { AdminWarning, AdminWarningCode } from './admin/scope.js';
export type { StoreHealth } from './stores/counts/sink.js';
export type { DecisionRates, KeyRates, Rates } from './admin/rates.js';
export type {
  LimiterRates,
  LimiterWaits,
  ProcessState,
  StoreLatency,
  Traffic,
  TrafficOptions,
} from './admin/traffic.js';
export type { Loss, ServerMemory } from './admin/state.js';
export {
  ItemError,
  typedKey as checkKey,
  type KeyOptions,
  type Refused,
  type Subject,
} from './admin/typed-keys.js';
export type { RecordedThreshold, ThresholdReader, ThresholdReaderOptions } from './admin/thresholds.js';
export type { UndoOptions, UndoResult } from './admin/undo.js';
export type { LimiterUsage, UsageOptions } from './admin/usage.js';
export type { KeySearch, KeysOptions, LimitedOptions, LimitersView, LimiterView } from './admin/views.js';
export { USE_LEVELS } from './stores/counts/use-histogram.js';
// Helpers for programs that present all of this to people.
export { isInNetwork } from './admin/entry-keys.js';
export { exactMilliseconds, MAX_DURATION_MS, shortText, toText } from './common/duration.js';
export { withoutPage } from './common/errors.js';
export { printable, printableJson, printableLines } from './common/printable.js';
export { faultOfSecret } from './common/secret.js';
export { withoutSecrets } from './common/shown.js';
export { VERSION } from './common/version.js';
export { checkNote, NOTE_LENGTHS } from './contract/change-note.js';
export { checkDimension, DEFAULT_DIMENSION } from './contract/key.js';
export { POLICY_GRAMMAR } from './contract/policy-text.js';
export { DEFAULT_SUBNET } from './http/client-key.js';
export { prefixOf } from './stores/redis/redis.js';
export type { RedisClient } from './stores/redis/clients/clients.js';
export type { Finding } from './stores/redis/operators/finding.js';
export type { SqliteDatabase } from './stores/sqlite/sqlite.js';
