// What the page of the playground takes of Headgate, in one bundle.
export { codeOf } from './code.js';
export { responseOf, simulate } from './simulate.js';
export type { AccessLog, Lane, Outcome, Simulation } from './simulate.js';
