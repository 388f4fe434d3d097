export * from './http/adapters/express.js';
export { default } from './http/adapters/express.js';
