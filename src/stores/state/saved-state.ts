import type { Saved } from '../../algorithms/index.js';
import { OVERRIDE_TAG, type OverrideRecord } from '../../contract/overrides.js';
import { isLine, THRESHOLD_TAG } from '../keys.js';

/** The version of the bytes' layout, which is part of the key, so that a version never reads another version's state. */
export const LAYOUT_VERSION = 'k2';

/** A saved state after its expiry. */
export type Entry = readonly [until: number, ...saved: Saved];

/** Saved states by the policy's id. */
export type Entries = readonly (readonly [id: string, entry: Entry])[];

/** The content of the bytes after their version and the step of the last change. */
export type SavedState = readonly [ban: Entry, states: Entries, histories: Entries];

export const NO_ENTRY: Entry = [0];
const NO_STATE: SavedState = [NO_ENTRY, [], []];

/** The content of the bytes of a key's state, for commands that show it. Times are ms since the epoch. */
export interface StateSummary {
  readonly bannedUntil: number;
  /** Denials that count towards the next ban until `countedUntil`, and the length of the last ban by denials, ms. */
  readonly denials: number;
  readonly countedUntil: number;
  readonly lastBanMs: number;
  /** The end of each policy's state, by the policy's id. */
  readonly policies: ReadonlyMap<string, number>;
  readonly overrides: OverrideRecord;
}

/** Reads the bytes of a key's state without its policies. */
export function summaryOf(bytes: Uint8Array | undefined): StateSummary {
  const [[, ...ban], states] = parse(bytes).saved;
  const [denials = 0, countedUntil = 0, bannedUntil = 0, , , lastBanMs = 0] = ban as number[];
  const record = states.find(([id]) => id === OVERRIDE_TAG)?.[1][1];
  return {
    bannedUntil,
    denials,
    countedUntil,
    lastBanMs,
    policies: new Map(states.flatMap(([id, [until]]) => (isPolicy(id) ? [[id, until]] : []))),
    overrides: typeof record === 'string' ? record : '',
  };
}

/** Whether an entry is the state of a policy that operators know. */
function isPolicy(id: string): boolean {
  return id !== OVERRIDE_TAG && !isLine(id) && !id.startsWith(THRESHOLD_TAG);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The bytes of a state. @param text the state as JSON */
export function encode(step: number, text: string): Uint8Array {
  return encoder.encode(`${LAYOUT_VERSION} ${step} ${text}`);
}

export function parse(bytes: Uint8Array | undefined): { step: number; saved: SavedState } {
  const [, version, step, text] = /^(\S+) (\d+) (.*)$/s.exec(bytes ? decoder.decode(bytes) : '') ?? [];
  if (version !== LAYOUT_VERSION) return { step: 0, saved: NO_STATE };
  try {
    const saved: unknown = JSON.parse(text!);
    if (isSavedState(saved)) return { step: Number(step), saved };
  } catch {
    // Bytes that cannot be read count as no state.
  }
  return { step: 0, saved: NO_STATE };
}

function isSavedState(value: unknown): value is SavedState {
  if (!Array.isArray(value) || value.length !== 3) return false;
  const [ban, states, histories] = value as unknown[];
  return isEntry(ban) && isEntries(states) && isEntries(histories);
}

function isEntries(value: unknown): value is Entries {
  return (
    Array.isArray(value) &&
    value.every((each) => {
      const [id, entry, ...rest] = Array.isArray(each) ? (each as unknown[]) : [];
      return typeof id === 'string' && isEntry(entry) && rest.length === 0;
    })
  );
}

function isEntry(value: unknown): value is Entry {
  return Array.isArray(value) && value.length > 0 && isWhole(value[0]) && value.every(isSaved);
}

function isSaved(value: unknown): boolean {
  return typeof value === 'string' || isWhole(value);
}

function isWhole(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
