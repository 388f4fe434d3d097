export { TestClock } from './testing/clock.js';
export { CheckError, type Check, type Randomness } from './testing/check.js';
export { storeChecks } from './testing/store.js';
export { contractChecks } from './testing/contract.js';
export { lawChecks, type Law } from './testing/laws.js';
export { identityChecks, type IdentityOptions } from './testing/identity.js';
export type { StoreEntry, StoreUnderTest } from './testing/subject.js';
export type { Trace } from './testing/trace.js';
