// Compares an answer with the model's, and names the first field that differs.
import type { Decision } from 'headgate';
import { ANY, type Decision as Expected } from './model/types.js';

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

const TIMES: ReadonlySet<string> = new Set([
  ...['retryAfterMs', 'resetAfterMs', 'delayMs', 'resetsAt', 'bannedUntil', 'since', 'until'],
]);

/** An answer without its times. Whether there is a time is kept, except for those that units held ahead change. */
export const untimed = (answer: unknown): unknown => {
  if (Array.isArray(answer)) return answer.map(untimed);
  if (!isObject(answer)) return answer;
  const entries = Object.entries(answer).flatMap(([name, value]): [string, unknown][] => {
    if (!TIMES.has(name)) return [[name, untimed(value)]];
    return name.startsWith('reset') ? [] : [[name, typeof value === 'number' && value > 0 ? ANY : value]];
  });
  return Object.fromEntries(entries);
};

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

/** The fields of a decision that the model predicts. */
export function plain(decision: Decision): Expected {
  const {
    allowed,
    key,
    cost,
    policy,
    limit,
    remaining,
    retryAfterMs,
    resetAfterMs,
    delayMs,
    reason,
    degraded,
    repeated,
  } = decision;
  const { charged, costs, policies } = decision;
  return {
    allowed,
    key,
    cost,
    policy,
    limit,
    remaining,
    retryAfterMs,
    resetAfterMs,
    delayMs,
    reason,
    degraded,
    repeated,
    charged,
    costs,
    policies,
  };
}
