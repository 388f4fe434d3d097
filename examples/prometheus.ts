// Metrics of all limiters for Prometheus, by OpenTelemetry: decisions, keys near their limit, and the denials of a policy on trial. Alert rules
// and a dashboard for them are in examples/observability.
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import express from 'express';
import { rateLimit } from 'headgate/express';
import { instrument } from 'headgate/opentelemetry';

const exporter = new PrometheusExporter({ preventServerStart: true });
const provider = new MeterProvider({ readers: [exporter] });
instrument({ meter: provider.getMeter('headgate') });

const app = express();
app.get('/metrics', (req, res) => exporter.getMetricsRequestHandler(req, res));
app.use(
  rateLimit({
    name: 'api',
    policies: [
      { name: 'minute', limit: 100, window: '1m' },
      // On trial: the policy only counts the requests that it would deny.
      { name: 'burst', limit: 5, window: '1s', shadow: true },
    ],
  }),
);
app.get('/', (_req, res) => void res.send('hello'));

const port = Number(process.env.PORT ?? 3000);
app.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/metrics`));
