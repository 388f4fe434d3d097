export * from './http/adapters/fastify.js';
export { default } from './http/adapters/fastify.js';
