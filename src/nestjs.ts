export * from './http/adapters/nestjs/nestjs.js';
