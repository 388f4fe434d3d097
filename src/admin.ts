/**
 * Views and changes for operators, over Redis, SQLite and memory. See docs/admin.md.
 *
 * @module
 */
export { createAdmin, type Admin, type AdminOptions, type AdminSource } from './admin/create-admin.js';
export type {
  BanKeyOptions,
  BanResult,
  BansOptions,
  ImportedBan,
  ImportOptions,
  ImportResult,
  UnbanResult,
} from './admin/bans.js';
export type { ChangeOptions, KeyChangeOptions, NameOption } from './admin/context.js';
export type { BannedKey, Find, JudgedKey, PolicyVerdict } from './admin/finds.js';
export type { GivenLimits } from './admin/limits.js';
export type { LoggedChange, LogOptions } from './admin/log.js';
export type { Hash, Whose } from './admin/owners.js';
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
export type { LimiterRates, Traffic, TrafficOptions } from './admin/traffic.js';
export type { KeyOptions, Subject } from './admin/typed-keys.js';
export type { LimiterUsage, UsageOptions } from './admin/usage.js';
export type {
  KeySearch,
  KeysOptions,
  KeyView,
  KeyViewOptions,
  LimitedOptions,
  LimitersView,
  LimiterView,
} from './admin/views.js';
