export { limitFetch } from './fetch/limit-fetch.js';
export type {
  LimitedFetch,
  LimitFetchOptions,
  OutboundOptions,
  OutboundRequest,
  ScheduleOptions,
} from './fetch/limit-fetch.js';
export type { OutboundStats, Pause } from './fetch/outbound.js';
export { readAnswer } from './fetch/answer.js';
export type { Answer, Field, Quota } from './fetch/answer.js';
