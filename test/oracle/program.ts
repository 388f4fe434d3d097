// A counterexample as a program with the public API alone.
import type { DrawnLimiter } from './draw.js';
import type { Policy } from './model/types.js';

/** The options of the real limiter. */
export function optionsOf(name: string, drawn: DrawnLimiter): Record<string, unknown> {
  const { policies, tiers, ban, shadow, overrides, hasIds, idsFor, onStoreError } = drawn;
  return {
    name,
    policies: policies.map(policyOf),
    ...(Object.keys(tiers).length > 0
      ? { tiers: Object.fromEntries(Object.entries(tiers).map(([tier, set]) => [tier, set.map(policyOf)])) }
      : {}),
    ...(ban
      ? {
          ban: Object.fromEntries(
            Object.entries(ban).filter(
              ([name, value]) =>
                value !== undefined && !(name === 'by' && value === 'key') && value !== false,
            ),
          ),
        }
      : {}),
    ...(shadow ? { shadow } : {}),
    ...(overrides ? { overrides } : {}),
    ...(hasIds ? { idsFor } : {}),
    onStoreError,
  };
}

function policyOf({ algorithm, window, period, attempts, by, ...rest }: Policy): Record<string, unknown> {
  const length =
    algorithm === 'concurrency' ? { lease: window } : algorithm === 'calendar' ? { period } : { window };
  return {
    ...rest,
    algorithm,
    ...length,
    ...(by === 'key' ? {} : { by }),
    ...(attempts ? { count: 'attempts' } : {}),
  };
}

export const callText = (method: string, args: readonly unknown[]): string =>
  `${method}(${args
    .filter((arg, i) => i === 0 || !isEmpty(arg))
    .map(text)
    .join(', ')})`;

const isEmpty = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0;

/** A value as code. */
export function text(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(text).join(', ')}]`;
  if (typeof value === 'object' && value !== null)
    return isEmpty(value)
      ? '{}'
      : `{ ${Object.entries(value)
          .map(([name, each]) => `${name}: ${text(each)}`)
          .join(', ')} }`;
  return typeof value === 'string' ? `'${value}'` : String(value);
}

export function programText(
  storeLines: readonly string[],
  limiters: readonly DrawnLimiter[],
  lines: readonly string[],
  { start, storeOptions }: { start: number; storeOptions: object },
): string {
  return [
    "import { createLimiter, memoryStore } from 'headgate';",
    "import { TestClock } from 'headgate/testing';",
    `const clock = new TestClock(${start});`,
    ...(storeLines.some((line) => line.includes('storeOptions'))
      ? [`const storeOptions = ${text(storeOptions)};`]
      : []),
    ...storeLines.map((line) => ('slices' in storeOptions ? line.replace('clock: clock.read, ', '') : line)),
    'const onThreshold = (event) => console.log(event);',
    'const show = (decision) => (console.log(decision), decision);',
    ...limiters.map((drawn, i) => {
      const options = text({ ...optionsOf(`l${i}`, drawn), store: 0 }).replace(
        'store: 0',
        JSON.stringify(drawn).includes('thresholds') ? 'store, onThreshold' : 'store',
      );
      return `const l${i} = createLimiter(${options});`;
    }),
    ...lines,
  ].join('\n');
}
