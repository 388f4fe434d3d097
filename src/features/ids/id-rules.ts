import { createHash } from 'node:crypto';
import { invalidOption } from '../../common/errors.js';
import type { Costs } from '../../contract/costs.js';
import type { FirstDecision } from './contract/ids.js';
import type { Key } from '../../contract/key.js';
import { holdsSlots, type PolicySet, type Store } from '../../contract/store.js';
import { factOf } from '../../contract/variant.js';
import { refusal } from '../../contract/together.js';
import { areVerdicts } from '../../contract/verdicts.js';

const MAX_ID_LENGTH = 255;

/** The time for which an id is remembered if the limiter does not set one, ms. */
const DEFAULT_LIFE_MS = 600_000;

export const MAX_REPEATS = 1e6;

const DEFAULT_REPEATS = 5;

/** The costs of a decision as {@link FirstDecision} has them. */
export function firstCosts({ cost, costs }: Costs): readonly number[] {
  return costs ?? (cost === 1 ? [] : [cost]);
}

/** The costs, verdicts and limits of a first decision by a set, or undefined if a store's data do not fit the set. */
export function decisionBy({ by, costs, verdicts, limits }: FirstDecision, set: PolicySet) {
  const { policies } = set;
  const fits = by === policiesText(set) && areVerdicts(verdicts, policies.length);
  if (!fits || (costs.length > 1 && costs.length !== policies.length)) return undefined;
  const each: Costs = {
    cost: costs.length === 0 ? 1 : Math.max(...costs),
    costs: costs.length > 1 ? costs : undefined,
  };
  const own = limits && { limits: policies.map(({ limit }, i) => limits[i] ?? limit) };
  return { costs: each, verdicts, ...own };
}

export function isId(id: unknown): id is string {
  return typeof id === 'string' && id.length > 0 && id.length <= MAX_ID_LENGTH;
}

/** @throws HeadgateError as `checkIds`, and `HEADGATE_INVALID_OPTION` for an invalid id */
export function checkId(id: unknown, set: PolicySet, store: Store): void {
  if (!isId(id))
    throw invalidOption('id', id, `Pass a string of 1 to ${MAX_ID_LENGTH} characters, or omit it.`);
  checkIds('id', id, set, store);
}

/**
 * Refuses ids without support by the store or the policies.
 *
 * @param option the option or argument with the id
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_DIMENSIONS`
 */
export function checkIds(option: string, given: unknown, set: PolicySet, { remembersIds }: Store): void {
  if (!remembersIds) {
    const fix =
      'This store does not remember ids. Use memoryStore, redisStore, sqliteStore or postgresStore.';
    throw invalidOption(option, given, fix);
  }
  if (holdsSlots(set)) throw refusal('heldIds', option, given);
  if (remembersIds !== true && !remembersIds(set)) throw refusal('idsAcross', option);
}

/** An id with all keys that a request names, because an id belongs to its keys. A store adds the request's first key itself. */
export function idOfKeys(id: string, key: Key): string {
  const named = typeof key === 'string' ? [] : Object.entries(key).filter(([, each]) => each !== undefined);
  return named.length < 2 ? id : JSON.stringify([id, ...named.sort(([a], [b]) => (a < b ? -1 : 1))]);
}

/** The notation of an id in a key: 12 characters, so that two of a million ids of a key are the same once in nine billion times. */
export function idText(id: string): string {
  return digest(id).slice(0, 12);
}

/** The time for which the ids of a set are remembered, ms. */
export function idLifeOf({ idsFor }: PolicySet): number {
  return idsFor ?? DEFAULT_LIFE_MS;
}

export function repeatsOf({ repeats }: PolicySet): number {
  return repeats ?? DEFAULT_REPEATS;
}

/** Four characters that differ for sets with other policies, because the verdicts of other policies have another meaning. */
export const policiesText = factOf((set): string => {
  const { policies } = set.scaledFrom ?? set;
  const parts = policies.map(({ id, by, limit, shadow, attempts }) => [id, by, limit, shadow, attempts]);
  return digest(JSON.stringify(parts)).slice(0, 4);
});

function digest(text: string): string {
  return createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url');
}
