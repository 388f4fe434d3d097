import { outweighs, type Decision, type Verdict } from '../decision.js';
import { invalidOption } from '../errors.js';
import type { CompiledPolicy } from '../policy.js';
import { checkChoice } from '../validate.js';
import { seconds, textsAfter, textsOf, type Texts } from './texts.js';

/**
 * Which fields tell the client its quota:
 * - `'draft-11'`: `RateLimit` and `RateLimit-Policy` as structured lists, an item per policy;
 * - `'draft-7'`: `RateLimit: limit=100, remaining=42, reset=17`, `RateLimit-Policy: 100;w=60`;
 * - `'draft-6'`: `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, `RateLimit-Policy`;
 * - `'legacy'`: `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` (seconds since 1970).
 *
 * Concurrency policies are told of by `'draft-11'` alone.
 */
export type HeaderDialect = 'draft-6' | 'draft-7' | 'draft-11' | 'legacy';

/** Where the fields are written. */
export interface HeaderTarget<Res> {
  /** The field's value; undefined or null if it is not set. */
  getHeader(res: Res, name: string): unknown;
  setHeader(res: Res, name: string, value: string): void;
}

/**
 * Writes the fields of one decision.
 *
 * @param stacked another limiter may have written before, on the same response
 * @returns what the policies are called on this response
 */
export type WriteHeaders = <Res>(
  target: HeaderTarget<Res>,
  res: Res,
  decision: Decision,
  stacked: boolean,
) => Texts;

/** Writes fields of a dialect that has room for one quota. */
type WriteQuota = <Res>(
  target: HeaderTarget<Res>,
  res: Res,
  quota: Quota,
  texts: Texts,
  stacked: boolean,
) => void;

/** All fields that tell a quota. */
export const FIELDS: readonly string[] = ['RateLimit', 'X-RateLimit'].flatMap((prefix) =>
  ['', '-Limit', '-Remaining', '-Reset', '-Policy'].map((suffix) => prefix + suffix),
);

/** Newest first: where two define one field, the newer has it. */
const DIALECTS = ['draft-11', 'draft-7', 'draft-6', 'legacy'] as const satisfies HeaderDialect[];

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function compileHeaders(
  option: HeaderDialect | readonly HeaderDialect[] | false = ['draft-6', 'draft-11'],
): WriteHeaders {
  const chosen = new Set<HeaderDialect>();
  if (option !== false) {
    const list: readonly unknown[] = Array.isArray(option) ? option : [option];
    if (list.length === 0) throw invalidOption('headers', option, 'Write false for no headers.');
    for (const dialect of list) chosen.add(checkChoice('headers', dialect, DIALECTS));
  }
  const structured = chosen.has('draft-11');
  const older: WriteQuota[] = [];
  if (chosen.has('draft-6')) older.push(separateFields('RateLimit', secondsToReset));
  if (chosen.has('legacy')) older.push(separateFields('X-RateLimit', dateOfReset));
  if (chosen.has('draft-7') && !structured) older.push(oneField);
  if ((chosen.has('draft-7') || chosen.has('draft-6')) && !structured) older.push(policyField);
  return (target, res, decision, stacked) => {
    const texts = textsOf(decision.set);
    if (!speaksOfQuota(decision, texts)) return texts;
    const quota = older.length === 0 ? undefined : quotaOf(decision, texts);
    if (quota) for (const write of older) write(target, res, quota, texts, stacked);
    return structured ? structuredFields(target, res, decision, stacked) : texts;
  };
}

/** A client is told of what it has to heed: policies that are enforced. */
function speaksOfQuota(decision: Decision, { enforced }: Texts): boolean {
  return (
    !decision.shadow && enforced.length > 0 && (decision.policies.length > 0 || decision.reason === 'banned')
  );
}

/** `Retry-After`: never too early; undefined where waiting does not help. */
export function retryAfterSeconds({ retryAfterMs }: Decision): number | undefined {
  return retryAfterMs === undefined ? undefined : seconds(retryAfterMs || 1);
}

/** The one quota that the older dialects have room for. */
interface Quota {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** Time until all of it is back; of a denial, until the request is admitted: some clients wait that long. */
  readonly resetMs: number;
}

/** Of the quotas that deny, the one that denies longest; else the one with the least remaining; undefined if there are none. */
function quotaOf({ set, policies, reason, retryAfterMs }: Decision, { quotas }: Texts): Quota | undefined {
  let tightest = quotas[0];
  if (tightest === undefined) return undefined;
  // If the key was banned before, no policy was asked.
  for (const i of policies.length > 0 ? quotas : []) {
    if (outweighs(policies[i]!, policies[tightest]!)) tightest = i;
  }
  const { limit } = set.policies[tightest]!;
  if (reason === 'banned') return { allowed: false, limit, remaining: 0, resetMs: retryAfterMs! };
  const verdict = policies[tightest]!;
  const { remaining } = verdict;
  // What is left of the quota is not why it waits.
  const noRoom = reason === 'queue-full' || reason === 'store-full';
  if (noRoom && retryAfterMs) return { allowed: false, limit, remaining, resetMs: retryAfterMs };
  return {
    allowed: verdict.allowed,
    limit,
    remaining,
    resetMs: verdict.retryAfterMs || verdict.resetAfterMs,
  };
}

function secondsToReset({ resetMs }: Quota): number {
  return seconds(resetMs);
}

/** In seconds since 1970. */
function dateOfReset({ resetMs }: Quota): number {
  return seconds(Date.now() + resetMs);
}

/**
 * The effective window (`t`): the seconds for which `r` must do. Never less than the policy's rate allows for `r` units, and
 * never less than the time to the next unit; where the algorithm does not tell that, with nothing left, to the full quota.
 */
function effectiveWindow(policy: CompiledPolicy, verdict: Verdict): number | undefined {
  const { kernel, limit, window, params } = policy;
  const { allowed, remaining, retryAfterMs, resetAfterMs } = verdict;
  if (!allowed && retryAfterMs !== undefined) return seconds(retryAfterMs);
  if (kernel === 'concurrency') return undefined;
  let next = 0;
  if (kernel === 'gcra') {
    const burst = params.capacity! / params.increment!;
    next = resetAfterMs - ((burst - remaining - 1) * window) / limit;
  } else if (kernel === 'fixed-window' || remaining === 0) {
    next = resetAfterMs;
  }
  return Math.max(seconds(next), seconds((remaining * window) / limit));
}

function structuredItems(decision: Decision, { enforced, items }: Texts): string {
  let list = '';
  for (const i of enforced) {
    if (list !== '') list += ', ';
    if (decision.reason === 'banned') {
      list += `${items[i]}0;t=${retryAfterSeconds(decision)}`;
    } else {
      const verdict = decision.policies[i]!;
      const window = effectiveWindow(decision.set.policies[i]!, verdict);
      list += items[i]! + verdict.remaining + (window === undefined ? '' : `;t=${window}`);
    }
  }
  return list;
}

const structuredFields: WriteHeaders = (target, res, decision, stacked) => {
  const earlier = stacked ? target.getHeader(res, 'RateLimit-Policy') : undefined;
  const texts = isStructured(earlier) ? textsAfter(earlier, decision.set) : textsOf(decision.set);
  const items = structuredItems(decision, texts);
  target.setHeader(res, 'RateLimit-Policy', joined(earlier, texts.structured));
  target.setHeader(res, 'RateLimit', stacked ? joined(target.getHeader(res, 'RateLimit'), items) : items);
  return texts;
};

const policyField: WriteQuota = (target, res, _quota, { plain }, stacked) => {
  const earlier = stacked ? target.getHeader(res, 'RateLimit-Policy') : undefined;
  if (isStructured(earlier)) return;
  target.setHeader(res, 'RateLimit-Policy', typeof earlier === 'string' ? `${earlier}, ${plain}` : plain);
};

/** An earlier limiter's list and this one's; of another dialect than this, the newer, its list gives way. */
function joined(earlier: unknown, own: string): string {
  return isStructured(earlier) ? `${earlier}, ${own}` : own;
}

function isStructured(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith('"');
}

const oneField: WriteQuota = (target, res, quota, _texts, stacked) => {
  const earlier = stacked ? target.getHeader(res, 'RateLimit') : undefined;
  if (isStructured(earlier)) return;
  if (typeof earlier === 'string' && isTighter(/remaining=(\d+)/.exec(earlier)?.[1], quota)) return;
  const { limit, remaining } = quota;
  target.setHeader(
    res,
    'RateLimit',
    `limit=${limit}, remaining=${remaining}, reset=${secondsToReset(quota)}`,
  );
};

function separateFields(prefix: string, resetOf: (quota: Quota) => number): WriteQuota {
  const [limit, remaining, reset] = [`${prefix}-Limit`, `${prefix}-Remaining`, `${prefix}-Reset`] as const;
  return (target, res, quota, _texts, stacked) => {
    if (stacked && isTighter(target.getHeader(res, remaining), quota)) return;
    target.setHeader(res, limit, String(quota.limit));
    target.setHeader(res, remaining, String(quota.remaining));
    target.setHeader(res, reset, String(resetOf(quota)));
  };
}

/** Fields that have room for one quota keep the tightest; who denies has the last word. */
function isTighter(earlier: unknown, { allowed, remaining }: Quota): boolean {
  return earlier !== undefined && earlier !== null && allowed && Number(earlier) <= remaining;
}
