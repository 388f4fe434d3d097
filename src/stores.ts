/**
 * Building blocks for a store of your own. See "A store" in https://github.com/headgate/headgate/blob/main/docs/extending.md.
 *
 * @module
 */
export type { StateChange } from './stores/state/key-record.js';
export { JointState, KeyState } from './stores/state/key-state.js';
export { stateKey, stateKeys } from './stores/state/state-keys.js';
export { stateStore, type Askers, type StateBackend } from './stores/state/state-store.js';
export { admits, NEVER, remainingOf, resetOf, waitOf, type Verdicts } from './contract/verdicts.js';
export {
  changeRecord,
  type OverrideRecord,
  type AppliedOverrides,
  type RecordChange,
} from './features/overrides/contract/records.js';
export { costAt, type Costs } from './contract/costs.js';
export { subjectOf } from './contract/dimensions.js';
export type { Health } from './contract/health.js';
export type { ChangeNote as BanNote } from './contract/change-note.js';
export type { FirstDecision } from './features/ids/contract/ids.js';
export type { CompiledBan } from './features/bans/contract/ban-options.js';
export type { CompiledPolicy } from './contract/policy.js';
export type { Ahead, Kernel, Params, Traits } from './algorithms/index.js';
export { chargedOf } from './contract/reply.js';
export type { Announced, Announcement } from './contract/announcement.js';
export type { ChangeReply, Charged, Reply, UsageReply } from './contract/reply.js';
export type {
  Call,
  ChargeChange,
  Clock,
  Dimensions,
  Keys,
  LeaseChange,
  MaybePromise,
  OverridePlace,
  OverrideStore,
  PolicySet,
  Query,
  Store,
  Subject,
} from './contract/store.js';
export type { Crossing } from './features/thresholds/contract/crossing.js';
export type { StoredCrossing } from './features/thresholds/crossings.js';
