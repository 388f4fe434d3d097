// The names of overrides that headgate/admin exports.
export { banRuleOf, type BannedSince } from './override-bans.js';
export { overrideJson, readChange, readOverrideLine, type OverrideLineDefaults } from './override-lines.js';
export type { OverrideWish } from './override-scope.js';
export type { AppliedOverride, OverrideCounts } from './override-views.js';
export type {
  OverrideAllOptions,
  OverrideEffect,
  OverrideOptions,
  OverrideResult,
  OverriddenKey,
  RemoveOverrideOptions,
} from './overrides.js';
