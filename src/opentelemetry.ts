export * from './telemetry/opentelemetry.js';
