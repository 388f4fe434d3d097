export { limitFetch } from './fetch/limit-fetch.js';
export type { LimitedFetch, ScheduleOptions } from './fetch/limit-fetch.js';
export type { LimitFetchOptions, OutboundOptions } from './fetch/outbound-options.js';
export type { Denied } from './fetch/denial.js';
export type { Interceptor } from './fetch/interceptor.js';
export type { OutboundRequest, OutboundStats } from './fetch/outbound.js';
export type { Pause } from './fetch/pauses.js';
export { readAnswer } from './fetch/answer.js';
export type { Answer, Field, PartnerQuota } from './fetch/answer.js';
