import { banPart, type KeyBan } from './bans/ban-view.js';
import type { KeyPart, KeyQuestion, PartAnswer } from './key-part.js';
import { overridePart, type KeyOverride } from './overrides/override-views.js';

/** The fields of features in the views of keys. */
export interface KeyFields extends KeyBan, KeyOverride {}

/** The parts of features in the views of keys, in the order of the fields. */
const KEY_PARTS: readonly KeyPart<Partial<KeyFields>>[] = [banPart, overridePart];

const merged = (fields: readonly Partial<KeyFields>[]) => Object.assign({}, ...fields) as KeyFields;

/** The fields of a key to which the limiter has no answer. */
export function absentFields(): KeyFields {
  return merged(KEY_PARTS.map(({ absent }) => absent));
}

/** The answers of all features to a question, and the fields. */
export async function partsOf(
  question: KeyQuestion,
): Promise<{ fields: KeyFields; answers: readonly PartAnswer<object>[] }> {
  const answers = await Promise.all(KEY_PARTS.map((part) => part.of(question)));
  return { fields: merged(answers.map(({ fields }) => fields)), answers };
}
