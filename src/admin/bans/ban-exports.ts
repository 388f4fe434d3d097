// The names of bans that headgate/admin exports.
export type { BannedKey } from './ban-finds.js';
export type { BanOriginsOptions } from './ban-origins.js';
export type { BanOrigin } from './ban-origin-search.js';
export { banJson, readBanLine, type BanLineDefaults } from './ban-lines.js';
export type { KeyBan } from './ban-view.js';
export type { BanKeyOptions, BanResult, BansOptions, UnbanKeyOptions, UnbanResult } from './bans.js';
export {
  MAX_LOGGED_KEYS,
  type BanEffect,
  type ImportedBan,
  type ImportOptions,
  type ImportResult,
} from './import-bans.js';
