export * from './http/adapters/hono.js';
export { default } from './http/adapters/hono.js';
