import type { Saved } from '../../algorithms/index.js';
import { shares } from '../../algorithms/shares/shares.js';
import { banSummary, type BanSummary } from '../../features/bans/saved-ban.js';
import type { KeptValue } from '../../features/kept-values.js';
import { isOfFeature } from '../../features/features.js';
import { isLine } from '../keys.js';

/** The version of the bytes' layout, which is part of the key, so that a version never reads another version's state. */
export const LAYOUT_VERSION = 'k2';

/** A saved state after its expiry. */
export type Entry = readonly [until: number, ...saved: Saved];

/** Saved states by the policy's id. */
export type Entries = readonly (readonly [id: string, entry: Entry])[];

/** The content of the bytes after their version and the step of the last change. */
export type SavedState = readonly [ban: Entry, states: Entries, histories: Entries];

/**
 * The state of a key as a store reads it: bytes, or their text if a database keeps texts, which then are never converted. An empty text is
 * no state.
 */
export type StoredState = Uint8Array | string | undefined;

export const NO_ENTRY: Entry = [0];
const NO_STATE: SavedState = [NO_ENTRY, [], []];

/** The content of the bytes of a key's state, for commands that show it. Times are ms since the epoch. */
export interface StateSummary extends BanSummary {
  /** The end of each policy's state, by the policy's id. */
  readonly policies: ReadonlyMap<string, number>;
  /** The states of a tenant in shared limits, by the id of their hidden policy, as `SharesColumn` saves them. */
  readonly tenants: ReadonlyMap<string, Saved>;
  /** The values of features, by tag and id. */
  readonly kept: { get(id: string): KeptValue | undefined };
}

/** Reads the bytes of a key's state without its policies. */
export function summaryOf(bytes: Uint8Array | undefined): StateSummary {
  const [[, ...ban], states] = parse(bytes).saved;
  return {
    ...banSummary(ban),
    policies: new Map(states.flatMap(([id, [until]]) => (isPolicy(id) ? [[id, until]] : []))),
    tenants: new Map(states.flatMap(([id, [, ...saved]]) => (isOfShares(id) ? [[id, saved] as const] : []))),
    kept: new Map(states),
  };
}

/** Whether an entry is the state of a policy that operators know. */
function isPolicy(id: string): boolean {
  return !isLine(id) && !isOfFeature(id);
}

/** Whether the state of an id is that of a pool or of a tenant that shares units. */
export function isOfShares(id: string): boolean {
  return id.startsWith(shares.tag);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The bytes of the text of a state. */
export function encode(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The text of the bytes of a state. */
export function decode(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** The text of a state. @param text its content as JSON */
export function stateText(step: number, text: string): string {
  return `${LAYOUT_VERSION} ${step} ${text}`;
}

interface Parsed {
  readonly step: number;
  readonly text: string;
  readonly saved: SavedState;
}

const NOTHING: Parsed = { step: 0, text: JSON.stringify(NO_STATE), saved: NO_STATE };
const HEAD = `${LAYOUT_VERSION} `;

export function parse(state: StoredState): Parsed {
  const all = typeof state === 'string' ? state : state ? decoder.decode(state) : '';
  if (!all.startsWith(HEAD)) return NOTHING;
  const end = all.indexOf(' ', HEAD.length);
  const step = all.slice(HEAD.length, Math.max(end, 0));
  if (!/^\d+$/.test(step)) return NOTHING;
  const text = all.slice(end + 1);
  try {
    const saved: unknown = JSON.parse(text);
    if (isSavedState(saved)) return { step: Number(step), text, saved };
  } catch {
    // Bytes that cannot be read count as no state.
  }
  return NOTHING;
}

// These functions run for each decision, and loops are faster than `every` with destructuring.
function isSavedState(value: unknown): value is SavedState {
  return (
    Array.isArray(value) &&
    value.length === 3 &&
    isEntry(value[0]) &&
    isEntries(value[1]) &&
    isEntries(value[2])
  );
}

function isEntries(value: unknown): value is Entries {
  if (!Array.isArray(value)) return false;
  for (const each of value as unknown[]) {
    if (!Array.isArray(each) || each.length !== 2) return false;
    if (typeof each[0] !== 'string' || !isEntry(each[1])) return false;
  }
  return true;
}

function isEntry(value: unknown): value is Entry {
  if (!Array.isArray(value) || !isWhole(value[0])) return false;
  for (const each of value as unknown[]) if (typeof each !== 'string' && !isWhole(each)) return false;
  return true;
}

function isWhole(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
