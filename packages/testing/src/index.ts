export { CheckError, type Check, type Randomness } from './check.js';
export { storeChecks } from './store.js';
export { contractChecks } from './contract.js';
export { lawChecks, type Law } from './laws.js';
export { identityChecks, type IdentityOptions } from './identity.js';
export { adapterChecks } from './adapter.js';
export type { StoreEntry, StoreUnderTest } from './subject.js';
export type { SlotOptions, Trace, TraceAction } from './trace.js';
export type { AdapterUnderTest, App, AppAnswer, RunningApp } from './adapter/lab.js';
