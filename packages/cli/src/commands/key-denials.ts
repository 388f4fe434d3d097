// The last denials of a key, beside the answer to its next request: a key may be denied again and again, and have a unit at the moment.
import type { Admin, DenialOptions, PastDenials } from 'headgate/admin';
import { many, printable } from '../format.js';
import type { Io } from '../io.js';
import { prefixOf } from '../keys.js';
import { optional } from '../optional.js';
import { age } from '../times.js';

/** The time in which denials are recent, ms. */
const RECENT_MS = 10 * 60_000;

/** The denials of a key in the last minutes, a line for each limiter and dimension. Empty without denials. */
export async function recentDenials(
  admin: Admin,
  given: string,
  options: DenialOptions,
  io: Io,
): Promise<string> {
  const all = await optional(admin.denials(given, { ...options, hours: 1 }), 'the last denials', io);
  const lines = (all ?? []).map(lineOf).join('');
  return lines === '' ? '' : `\nDenied in the last 10 minutes:\n${lines}`;
}

function lineOf({ name, key, dimension, within, last, minutes }: PastDenials): string {
  const recent = minutes.filter(({ minute }) => minute >= Date.now() - RECENT_MS);
  if (recent.length === 0) return '';
  const causes = new Set(recent.map(({ policy, reason }) => printable(policy ?? reason ?? '')));
  const count = recent.reduce((sum, each) => sum + each.count, 0);
  const place = within === undefined ? '' : ` (within ${printable(within)})`;
  return `${printable(name)}: ${many(count, 'request')} of ${prefixOf(dimension)}${printable(key)}${place}, by ${[...causes].join(', ')}; the last ${age(last)} ago\n`;
}
