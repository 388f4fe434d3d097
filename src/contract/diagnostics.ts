import { channel } from 'node:diagnostics_channel';
import type { Decision } from '../common/decision.js';
import type { Health } from './health.js';
import type { Store } from './store.js';

/** Published on `headgate:decision`: each decision that a limiter reports, those of a shadow and of lists too. */
export interface DecisionMessage {
  /** The limiter's name. */
  readonly limiter: string;
  /** Whether the whole limiter is a shadow: then `decision.reason` says what it would have denied. */
  readonly shadow: boolean;
  /** The store is elsewhere, and was not asked: what this process knew of it was enough, a denial or a leased share. */
  readonly local: boolean;
  readonly decision: Decision;
}

/** Published on `headgate:store`: each answer that was waited for. Memory answers at once, and is not. */
export interface StoreMessage {
  readonly limiter: string;
  /** From the question to the answer, ms; at most the limiter's `timeout`, and what this process was late by. */
  readonly durationMs: number;
  /** For how much of that this process was busy, ms: it could not have read an answer then. */
  readonly busyMs: number;
  /** The failure policy answered instead. */
  readonly degraded: boolean;
  /** What the store failed with, whatever `onStoreError` made of it. Absent if it has answered. */
  readonly error?: unknown;
}

/** Published on `headgate:health`: a store, or one server of a cluster, was found down, or is up again. */
export interface HealthMessage {
  readonly store: Store;
  readonly health: Health;
}

// Whoever publishes asks `hasSubscribers` first: nobody pays for what nobody listens to.
export const decisionChannel = channel('headgate:decision');
export const storeChannel = channel('headgate:store');
export const healthChannel = channel('headgate:health');
