export * from './http/adapters/koa.js';
export { default } from './http/adapters/koa.js';
