import { channel } from 'node:diagnostics_channel';
import type { Decision } from '../common/decision.js';
import type { Health } from './health.js';
import type { Key } from './key.js';
import type { Store } from './store.js';

/** Published on `headgate:decision`: each decision that a limiter reports, including decisions of shadows and lists. A request that waits is reported once, at the end of its wait. */
export interface DecisionMessage {
  readonly limiter: string;
  /** The tier of the deciding policies, also if set by an override. `undefined` without a tier. */
  readonly tier: string | undefined;
  /** Whether the whole limiter is a shadow. If it would have denied the request, `decision.reason` has the reason. */
  readonly shadow: boolean;
  /** Whether this process decided without a call to a remote store, by a remembered denial or by quota charged in advance. */
  readonly local: boolean;
  /** The time for which the request waited in line or was held, ms. Absent for requests that could not wait. */
  readonly waitedMs?: number;
  readonly decision: Decision;
}

/** Published on `headgate:store`: each answer of a store that takes time. The memory store answers at once and does not publish. */
export interface StoreMessage {
  readonly limiter: string;
  /** Time from the question to the answer, ms. At most the limiter's `timeout` plus the time for which this process was late. */
  readonly durationMs: number;
  /** The part of the wait in which this process was busy and could not read an answer, ms. */
  readonly busyMs: number;
  /** Whether the guard answered instead of the store. */
  readonly degraded: boolean;
  /** The store's error, whatever `onStoreError` made of it. Absent if the store answered. */
  readonly error?: unknown;
}

/** Published on `headgate:health` when a store, or one server of a cluster, goes down or comes back. */
export interface HealthMessage {
  readonly store: Store;
  readonly health: Health;
}

/** Published on `headgate:outbound`: a response by which a partner rejected a call of `limitFetch`, or reported an empty quota. */
export interface OutboundMessage {
  readonly limiter: string;
  readonly key: string;
  /** The response's status: 429, 503 or 403 for a rejected call. */
  readonly status: number;
  /** The pause that the response began or prolonged, ms. 0 if the key was already paused for as long. */
  readonly pauseMs: number;
}

/** Published on `headgate:change`: a change by hand in this process. The author of a `limitFetch` pause begins with `headgate/`. */
export interface ChangeMessage {
  readonly limiter: string;
  readonly change: 'ban' | 'unban' | 'override' | 'remove-override' | 'reset';
  /** The changed key, or `undefined` for all keys. */
  readonly key: Key | undefined;
  /** The operator and the reason, if given. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

// Publishers check `hasSubscribers` first, so that messages without a subscriber cost nothing.
export const decisionChannel = channel('headgate:decision');
export const storeChannel = channel('headgate:store');
export const healthChannel = channel('headgate:health');
/** The same messages for the metrics, which do not take the place of a warning, as a subscriber of `headgate:health` does. */
export const healthMetricsChannel = channel('headgate:health:metrics');
export const outboundChannel = channel('headgate:outbound');
const changeChannel = channel('headgate:change');
/** The messages are those that `onThreshold` receives, also without that option. */
export const thresholdChannel = channel('headgate:threshold');

/** Publishes a change by hand to subscribers. @param key undefined for all keys */
export function publishChange(
  limiter: string,
  change: ChangeMessage['change'],
  key: Key | undefined,
  { by, reason }: Pick<ChangeMessage, 'by' | 'reason'> = {},
): void {
  if (!changeChannel.hasSubscribers) return;
  const message: ChangeMessage = { limiter, change, key, by, reason };
  changeChannel.publish(message);
}
