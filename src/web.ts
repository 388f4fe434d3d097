export * from './http/adapters/web.js';
export { default } from './http/adapters/web.js';
