export * from './limiter/decorators.js';
