import type { OverridePlace } from '../../contract/store.js';
import { OVERRIDE_TAG } from './contract/records.js';
import { ALL_KEYS, escapeName, ownerText, type KeyText } from '../../stores/keys.js';

/** The owner text of an override: of a key, or of all keys of a limiter. */
export function ownerTextOfPlace(place: OverridePlace, text: KeyText): string {
  if ('subject' in place) return ownerText(place.subject.set, place.subject.key, place.by, text);
  return ownerTextOfAll(place.set.name);
}

export function ownerTextOfAll(name: string): string {
  return `${escapeName(name)}:${ALL_KEYS}`;
}

export function recordKey(prefix: string, ownerText: string): string {
  return `${prefix}:{${ownerText}}${OVERRIDE_TAG}`;
}

/** The key that exists while a limiter of a name may have overrides. Without a colon between the braces, the key is never a limiter's key. */
export function overriddenKey(prefix: string, name: string): string {
  return `${prefix}:{overrides}:of:${escapeName(name)}`;
}

/** The key of the index of overrides. Without a colon between the braces, it is never a limiter's. */
export function overrideIndexKey(prefix: string): string {
  return `${prefix}:{overrides}`;
}
