import type { Sample } from './stats.js';

/** With a number of decimal places: 1.50 */
export const fixed = (value: number, digits: number) => value.toFixed(digits);

/** 10,000 */
export const count = (value: number) => value.toLocaleString('en-US');

/** 118k, 6.24M */
export function rate(value: number): string {
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)}M`;
  return value >= 1e4 ? `${(value / 1e3).toFixed(0)}k` : value.toFixed(0);
}

/** The median, with the least and the most: `118 (101-130)`. */
export function spread({ median, low, high }: Sample, digits: number | ((value: number) => string)): string {
  const show = typeof digits === 'number' ? (value: number) => value.toFixed(digits) : digits;
  return `${show(median)} (${show(low)}-${show(high)})`;
}
