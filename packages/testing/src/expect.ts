import { inspect, isDeepStrictEqual } from 'node:util';

/** An actual value that differs from the expected one. Test runners show the difference of `actual` and `expected`. */
export class Mismatch extends Error {
  readonly actual: unknown;
  readonly expected: unknown;

  /** @param demand the expectation in words. @default `expected` itself */
  constructor(what: string, actual: unknown, expected: unknown, demand = show(expected)) {
    super(`${what}: expected ${demand}, got ${show(actual)}`);
    this.actual = actual;
    this.expected = expected;
  }
}

export function show(value: unknown): string {
  const text = inspect(value, { depth: 9, breakLength: 120, maxArrayLength: 200, maxStringLength: 200 });
  // fast-check makes some records without a prototype.
  return text.replaceAll('[Object: null prototype] ', '');
}

export function expectEqual(what: string, actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) throw new Mismatch(what, actual, expected);
}

/** Expects an object to have at least the given properties and values. */
export function expectFields(what: string, actual: object, expected: object): void {
  const given = actual as Readonly<Record<string, unknown>>;
  expectEqual(what, Object.fromEntries(Object.keys(expected).map((name) => [name, given[name]])), expected);
}

export function expectWithin(what: string, actual: number | undefined, least: number, most: number): void {
  if (actual !== undefined && actual >= least && actual <= most) return;
  if (least === -Infinity) throw new Mismatch(what, actual, most, `at most ${most}`);
  if (most === Infinity) throw new Mismatch(what, actual, least, `at least ${least}`);
  throw new Mismatch(what, actual, [least, most], `from ${least} to ${most}`);
}

export function expectAtMost(what: string, actual: number | undefined, most: number): void {
  expectWithin(what, actual, -Infinity, most);
}

export function expectAtLeast(what: string, actual: number | undefined, least: number): void {
  expectWithin(what, actual, least, Infinity);
}
