import { createHash } from 'node:crypto';
import { invalidOption } from '../common/errors.js';
import { holdsSlots, perSet, type PolicySet, type Store } from './store.js';

/** The longest id of a request. */
const MAX_ID_LENGTH = 255;

/** The time for which an id is remembered if the limiter does not set one, ms. */
const DEFAULT_LIFE_MS = 600_000;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` for an invalid id, or for an id without support by the store or the policies */
export function checkId(id: unknown, set: PolicySet, { remembersIds }: Store): string {
  if (typeof id !== 'string' || id.length < 1 || id.length > MAX_ID_LENGTH)
    throw invalidOption('id', id, `Pass a string of 1 to ${MAX_ID_LENGTH} characters, or omit it.`);
  if (!remembersIds) {
    const fix =
      'This store does not remember ids. Use memoryStore, redisStore, sqliteStore or postgresStore.';
    throw invalidOption('id', id, fix);
  }
  if (holdsSlots(set)) {
    const fix = 'A repetition cannot hold the same slot. Create another limiter for concurrency.';
    throw invalidOption('id', id, fix);
  }
  return id;
}

/** The notation of an id in a key: 12 characters, so that two of a million ids of a key are the same once in nine billion times. */
export function idText(id: string): string {
  return digest(id).slice(0, 12);
}

/** The time for which the ids of a set are remembered, ms. */
export function idLifeOf({ idsFor }: PolicySet): number {
  return idsFor ?? DEFAULT_LIFE_MS;
}

/** Four characters that differ for sets with other policies, because the verdicts of other policies have another meaning. */
export const policiesText = perSet(({ policies }): string =>
  digest(JSON.stringify(policies.map(({ id, by }) => [id, by]))).slice(0, 4),
);

function digest(text: string): string {
  return createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url');
}
