export * from './express-rate-limit/rate-limit.js';
export { default } from './express-rate-limit/rate-limit.js';
