import { channel } from 'node:diagnostics_channel';
import type { Decision } from '../common/decision.js';
import type { Health } from './health.js';
import type { Store } from './store.js';

/** Published on `headgate:decision`: each decision that a limiter reports, including those of shadows and of lists. */
export interface DecisionMessage {
  /** The limiter's name. */
  readonly limiter: string;
  /** Whether the whole limiter is a shadow. Then `decision.reason` tells what it would have denied. */
  readonly shadow: boolean;
  /** Whether this process decided without asking a remote store: by a denial that it remembered, or by quota that it took ahead. */
  readonly local: boolean;
  readonly decision: Decision;
}

/** Published on `headgate:store`: each answer of a store that was waited for. The memory store answers at once, so it publishes none. */
export interface StoreMessage {
  readonly limiter: string;
  /** From the question to the answer, ms. At most the limiter's `timeout` plus the time that this process was late. */
  readonly durationMs: number;
  /** How much of that time this process was busy, ms. It could not read an answer meanwhile. */
  readonly busyMs: number;
  /** Whether the guard answered instead of the store. */
  readonly degraded: boolean;
  /** The error of the store, whatever `onStoreError` made of it. Absent if the store answered. */
  readonly error?: unknown;
}

/** Published on `headgate:health` when a store, or one server of a cluster, is found down or up again. */
export interface HealthMessage {
  readonly store: Store;
  readonly health: Health;
}

/** Published on `headgate:outbound`: an answer by which a partner has turned a call of `limitFetch` away, or said that nothing is left. */
export interface OutboundMessage {
  readonly limiter: string;
  readonly key: string;
  /** The answer's status: 429, 503 or 403 if it was turned away. */
  readonly status: number;
  /** The pause that it began, or made longer, ms. 0: the key paused as long already. */
  readonly pauseMs: number;
}

// Publishers ask `hasSubscribers` first, so that messages without a subscriber cost nothing.
export const decisionChannel = channel('headgate:decision');
export const storeChannel = channel('headgate:store');
export const healthChannel = channel('headgate:health');
export const outboundChannel = channel('headgate:outbound');
