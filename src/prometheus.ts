export { prometheusMetrics, type PrometheusOptions } from './telemetry/prometheus.js';
