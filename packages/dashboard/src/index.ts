/**
 * The live page of Headgate. See docs/dashboard.md.
 *
 * @module
 */
export { dashboard, type Connection, type DashboardHandler, type WebDashboardOptions } from './dashboard.js';
export type { DashboardOptions, Operator } from './options.js';
