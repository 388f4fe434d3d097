// Arbitraries that the checks draw their cases from.
import fc from 'fast-check';

/** A value from a list. Smaller cases have earlier values. A repeated value is drawn as often as it is listed. */
export const pick = <T>(values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);

export const oneIn = (n: number): fc.Arbitrary<boolean> => pick([...Array<false>(n - 1).fill(false), true]);

export const integer = (min: number, max: number): fc.Arbitrary<number> => fc.integer({ min, max });

/** A record with each of these fields in half of the cases. */
export const some = <T>(fields: Readonly<Record<string, fc.Arbitrary<T>>>): fc.Arbitrary<Record<string, T>> =>
  fc
    .tuple(fc.record(fields), fc.subarray(Object.keys(fields)))
    .map(([all, names]) => Object.fromEntries(names.map((name) => [name, all[name]!])));

export const list = <T>(least: number, most: number, of: fc.Arbitrary<T>): fc.Arbitrary<T[]> =>
  fc.array(of, { minLength: least, maxLength: most, size: 'max' });
