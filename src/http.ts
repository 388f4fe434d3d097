export * from './http/adapter-kit.js';
