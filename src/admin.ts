/**
 * Views and changes for operators, over Redis, SQLite and memory. See docs/admin.md.
 *
 * @module
 */
export { createAdmin, type Admin, type AdminOptions, type AdminSource } from './admin/create-admin.js';
export type { BanKeyOptions, BanResult, BansOptions, UnbanResult } from './admin/bans.js';
export type { ImportedBan, ImportOptions, ImportResult } from './admin/import-bans.js';
export type { ChangeOptions, KeyChangeOptions, NameFilter, NameOption } from './admin/context.js';
export type { BannedKey, Find, JudgedKey, PolicyVerdict } from './admin/finds.js';
export { ofTier, parseLimits, type GivenLimits, type Limits } from './admin/limits.js';
export type { History, HistoryOptions, LimiterHistory } from './admin/history.js';
export type { KeyView } from './admin/key-view.js';
export type { KeyViewOptions } from './admin/key.js';
export { CHANGE_ACTIONS, type LoggedChange, type LogOptions } from './admin/log.js';
export { kindOfHash, type Hash, type Whose } from './admin/owners.js';
export type {
  OverrideAllOptions,
  OverrideOptions,
  OverrideResult,
  OverrideWish,
  OverriddenKey,
} from './admin/overrides.js';
export type { Configuration, Instance } from './admin/published.js';
export type { ResetOptions, ResetResult } from './admin/resets.js';
export type { AdminWarning, AdminWarningCode } from './admin/scope.js';
export type { StoreHealth } from './stores/redis/operators/traffic.js';
export type { DecisionRates, KeyRates, Rates } from './admin/rates.js';
export type { LimiterRates, LimiterWaits, ProcessState, Traffic, TrafficOptions } from './admin/traffic.js';
export type { ServerMemory } from './admin/state.js';
export { ItemError, typedKey as checkKey, type KeyOptions, type Subject } from './admin/typed-keys.js';
export type { UndoOptions, UndoResult } from './admin/undo.js';
export type { LimiterUsage, UsageOptions } from './admin/usage.js';
export type { KeySearch, KeysOptions, LimitedOptions, LimitersView, LimiterView } from './admin/views.js';
export { USE_LEVELS } from './stores/use.js';
// Helpers for programs that present all of this to people.
export { MAX_DURATION_MS, toMilliseconds, toText } from './common/duration.js';
export { withoutPage } from './common/errors.js';
export { printable, printableJson, printableLines } from './common/printable.js';
export { faultOfSecret } from './common/secret.js';
export { VERSION } from './common/version.js';
export { checkNote, NOTE_LENGTHS } from './contract/ban-options.js';
export { checkDimension, DEFAULT_DIMENSION } from './contract/key.js';
export { POLICY_GRAMMAR } from './contract/policy-text.js';
export { DEFAULT_SUBNET } from './http/client-key.js';
export type { RedisClient } from './stores/redis/clients/clients.js';
export type { Finding } from './stores/redis/operators/check.js';
export type { SqliteDatabase } from './stores/sqlite/sqlite.js';
