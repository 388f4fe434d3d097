import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { trace } from '@opentelemetry/api';
import type { DecisionMessage } from '../contract/diagnostics.js';
import { attributesOf } from './metrics.js';
import { outcomeOf } from './report.js';

/** The shortest wait with a span of its own, ms. */
const MIN_SPAN_MS = 1;

/** The calls of {@link reportSpans} that have not ended. All of them share one subscription, so that no wait has two spans. */
const reporting = new Set<object>();

/** Reports decisions and waits as spans, until the returned function is called, which may be called again. */
export function reportSpans(): () => void {
  const call = {};
  if (reporting.size === 0) subscribe('headgate:decision', onSpan);
  reporting.add(call);
  return () => {
    if (reporting.delete(call) && reporting.size === 0) unsubscribe('headgate:decision', onSpan);
  };
}

/** Adds a decision to the active span, and makes the span of a wait. Keys are never attributes. */
function onSpan(message: unknown): void {
  const { limiter, tier, waitedMs = 0, decision } = message as DecisionMessage;
  const { reason, policy, degraded, limit, remaining, retryAfterMs } = decision;
  const outcome = outcomeOf(message as DecisionMessage);
  const attributes = {
    ...attributesOf({ limiter, policy, tier, outcome, reason, degraded }),
    ...(policy !== undefined && { 'headgate.limit': limit, 'headgate.remaining': remaining }),
    ...(retryAfterMs && { 'headgate.retry_after': retryAfterMs / 1000 }),
  };
  trace.getActiveSpan()?.setAttributes(attributes);
  if (waitedMs < MIN_SPAN_MS) return;
  const now = Date.now();
  const startTime = new Date(now - waitedMs);
  trace.getTracer('headgate').startSpan('headgate.wait', { startTime, attributes }).end(new Date(now));
}
