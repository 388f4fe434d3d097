/**
 * What you need to write a store. See "A store" in docs/extending.md.
 *
 * @module
 */
export { JointState, KeyState, stateKey, stateKeys, type StateChange } from './stores/state/key-state.js';
export { stateStore, type StateBackend } from './stores/state/state-store.js';
export { admits, NEVER, remainingOf, resetOf, waitOf, type Verdicts } from './contract/verdicts.js';
