import { printable } from '../format.js';

/** The change of an override for people. */
export function changeText(change: unknown): string {
  if (typeof change === 'string') return printable(change);
  const { tier } = change as { tier?: unknown };
  if (typeof tier === 'string') return `the tier ${printable(tier)}`;
  const entries = Object.entries(change as object);
  if (entries.every(([, value]) => typeof value === 'string' || value === false))
    return printable(entries.map(([name, value]) => `${name}=${value}`).join(' '), 100);
  return printable(JSON.stringify(change), 100);
}
