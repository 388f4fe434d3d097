export * from './fastify-rate-limit/plugin.js';
export { default } from './fastify-rate-limit/plugin.js';
