// Compares an answer with the model's, and names the first field that differs.
import { ANY } from './model/types.js';

/** @returns the difference, or undefined */
export function compare(got: unknown, expected: unknown, where = ''): string | undefined {
  if (Array.isArray(got) && Array.isArray(expected)) {
    for (let i = 0; i < Math.max(got.length, expected.length); i++) {
      const difference = compare(got[i], expected[i], `${where}[${i}]`);
      if (difference) return difference;
    }
    return undefined;
  }
  if (isObject(got) && isObject(expected)) {
    for (const name of new Set([...Object.keys(expected), ...Object.keys(got)])) {
      const difference = compare(got[name], expected[name], `${where}.${name}`);
      if (difference) return difference;
    }
    return undefined;
  }
  if (expected === ANY || Object.is(got, expected)) return undefined;
  return `${where || 'answer'}: got ${JSON.stringify(got)}, expected ${JSON.stringify(expected)}`;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;
