export * from './http/toolkit.js';
