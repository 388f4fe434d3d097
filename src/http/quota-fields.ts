import type { LimiterDecision } from '../limiter/decision.js';
import { outweighs } from '../limiter/deciding-policy.js';
import type { Verdict } from '../common/decision.js';
import { invalidOption } from '../common/errors.js';
import type { CompiledPolicy } from '../contract/policy.js';
import { checkChoice } from '../common/validate.js';
import type { PartitionKeys } from './partition-key.js';
import { textsAfter, textsOf, type HeaderTexts } from './header-texts.js';

/**
 * The format of the header fields that show clients their quota:
 * - `'draft-11'`: `RateLimit` and `RateLimit-Policy` as structured lists, an item per policy;
 * - `'draft-7'`: `RateLimit: limit=100, remaining=42, reset=17`, `RateLimit-Policy: 100;w=60`;
 * - `'draft-6'`: `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, `RateLimit-Policy`;
 * - `'legacy'`: `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` (seconds since 1970);
 * - `'legacy-seconds'`: the same three, with the seconds until the reset.
 *
 * Only `'draft-11'` includes concurrency policies.
 */
export type HeaderDialect = 'draft-6' | 'draft-7' | 'draft-11' | 'legacy' | 'legacy-seconds';

/** Reads and sets the header fields of a response. */
export interface HeaderTarget<Res> {
  /** The value of a field, or undefined or null if it is not set. */
  getHeader(res: Res, name: string): unknown;
  /** Sets a field, and replaces its previous value. */
  setHeader(res: Res, name: string, value: string): void;
}

/**
 * Writes the header fields of a decision.
 *
 * @param stacked whether an earlier limiter may already have written on the response
 * @returns the names of the policies on this response
 */
export type WriteHeaders = <Res>(
  target: HeaderTarget<Res>,
  res: Res,
  decision: LimiterDecision,
  stacked: boolean,
) => HeaderTexts;

/** A decision to show. */
interface Page {
  readonly decision: LimiterDecision;
  readonly texts: HeaderTexts;
  readonly stacked: boolean;
}

type WriteQuota = <Res>(target: HeaderTarget<Res>, res: Res, quota: QuotaItem, page: Page) => void;

/** Writes the structured lists of draft-11. @returns the texts in force */
type WriteLists = <Res>(target: HeaderTarget<Res>, res: Res, page: Page) => HeaderTexts;

/** The header fields that show a quota. */
export const FIELDS: readonly string[] = ['RateLimit', 'X-RateLimit'].flatMap((prefix) =>
  ['', '-Limit', '-Remaining', '-Reset', '-Policy'].map((suffix) => prefix + suffix),
);

/** Newest first: of two dialects with the same field, the newer dialect writes the field. */
const DIALECTS = [
  'draft-11',
  'draft-7',
  'draft-6',
  'legacy',
  'legacy-seconds',
] as const satisfies HeaderDialect[];

export const DEFAULT_DIALECTS: readonly HeaderDialect[] = ['draft-6', 'draft-11'];

/**
 * @param partitionKeys returns the parameters `pk`, if the fields show which key is counted
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function compileHeaders(
  option: HeaderDialect | readonly HeaderDialect[] | false = DEFAULT_DIALECTS,
  partitionKeys?: PartitionKeys,
): WriteHeaders {
  const chosen = new Set<HeaderDialect>();
  if (option !== false) {
    const list: readonly unknown[] = Array.isArray(option) ? option : [option];
    if (list.length === 0) throw invalidOption('headers', option, 'Pass false for no headers.');
    for (const dialect of list) chosen.add(checkChoice('headers', dialect, DIALECTS));
  }
  const structured = chosen.has('draft-11') ? structuredFields(partitionKeys) : undefined;
  if (partitionKeys && !structured)
    throw invalidOption('headers', option, "Add 'draft-11': no other dialect has partitionKey.");
  const older: WriteQuota[] = [];
  if (chosen.has('draft-6')) older.push(separateFields('RateLimit', seconds));
  if (chosen.has('legacy') && chosen.has('legacy-seconds'))
    throw invalidOption('headers', option, "Pass 'legacy' or 'legacy-seconds': both set the same fields.");
  if (chosen.has('legacy-seconds')) older.push(separateFields('X-RateLimit', seconds));
  if (chosen.has('legacy')) older.push(separateFields('X-RateLimit', (ms) => seconds(Date.now() + ms)));
  if (chosen.has('draft-7') && !structured) older.push(oneField);
  if ((chosen.has('draft-7') || chosen.has('draft-6')) && !structured) older.push(policyField);
  return (target, res, decision, stacked) => {
    const { policies, reason, shadow } = decision;
    const texts = textsOf(decision.set);
    // The fields show enforced policies only. A banned key has no verdicts.
    const isSilent = shadow || reason === 'disabled';
    if (isSilent || texts.enforced.length === 0 || (policies.length === 0 && reason !== 'banned'))
      return texts;
    const page = { decision, texts, stacked };
    const quota = older.length === 0 ? undefined : quotaOf(decision, texts);
    if (quota) for (const write of older) write(target, res, quota, page);
    return structured ? structured(target, res, page) : texts;
  };
}

/**
 * The value of `Retry-After`, in seconds, never too early.
 *
 * @param jitter the maximum random delay, whole seconds. A short wait is at most doubled, because a crowd gathers only during a long wait
 * @returns `undefined` if waiting does not help
 */
export function retryAfterSeconds(
  { retryAfterMs }: LimiterDecision,
  jitter?: number,
  random = Math.random,
): number | undefined {
  if (retryAfterMs === undefined) return undefined;
  const wait = Math.max(1, seconds(retryAfterMs));
  if (jitter === undefined) return wait;
  return wait + Math.floor((Math.min(jitter, wait) + 1) * random());
}

/** Writes the fields of a denial's response beside its quota. @param jitter as for {@link retryAfterSeconds} */
export function writeDenialFields<Res>(
  target: Pick<HeaderTarget<Res>, 'setHeader'>,
  res: Res,
  decision: LimiterDecision,
  jitter?: number,
): void {
  const wait = retryAfterSeconds(decision, jitter);
  if (wait !== undefined) target.setHeader(res, 'Retry-After', String(wait));
  target.setHeader(res, 'Cache-Control', 'no-store');
}

/** The single quota in the older dialects. */
interface QuotaItem {
  readonly allowed: boolean;
  /** Of a shared limit, the tenant's share. */
  readonly limit: number;
  readonly remaining: number;
  /** The time until the whole quota is back. For a denial, the time until the request is admitted, because some clients wait until then. */
  readonly resetMs: number;
}

/** The quota that denies longest, else the quota with the least remaining, or `undefined` if the set has no quotas. */
function quotaOf(decision: LimiterDecision, texts: HeaderTexts): QuotaItem | undefined {
  const { policies, reason, retryAfterMs } = decision;
  const { quotas } = texts;
  let tightest = quotas[0];
  if (tightest === undefined) return undefined;
  // A banned key has no verdicts.
  for (let n = 1; n < quotas.length && policies.length > 0; n++)
    if (outweighs(policies[quotas[n]!]!, policies[tightest]!)) tightest = quotas[n]!;
  const { limit } = texts.policies[tightest]!;
  if (reason === 'banned') return { allowed: false, limit, remaining: 0, resetMs: retryAfterMs };
  const verdict = policies[tightest]!;
  const { remaining, share = limit } = verdict;
  // The request waits for room, not for quota.
  const noRoom = reason === 'queue-full' || reason === 'store-full';
  if (noRoom && !decision.allowed) return { allowed: false, limit, remaining, resetMs: retryAfterMs };
  const isWaitedFor = !verdict.allowed && verdict.retryAfterMs !== undefined;
  let resetMs = isWaitedFor ? 0 : verdict.resetAfterMs;
  if (isWaitedFor) for (const i of quotas) resetMs = Math.max(resetMs, decision.nextWaitOf(i));
  return { allowed: verdict.allowed, limit: share, remaining, resetMs };
}

/**
 * The effective window (`t`): the seconds over which a client should spread `r` units. The minimum is the time that `r` units take at the
 * policy's rate, and the time to the next unit.
 */
function effectiveWindow(
  policy: CompiledPolicy,
  verdict: Verdict,
  decision: LimiterDecision,
): number | undefined {
  const { limit, window, traits } = policy;
  const { allowed, remaining, retryAfterMs, resetAfterMs } = verdict;
  if (!allowed && retryAfterMs !== undefined) {
    // The decision may have the expected time until a slot, which is shorter.
    const latestMs = traits.holdsSlots ? (decision.retryAfterMs ?? Infinity) : Infinity;
    return seconds(Math.min(retryAfterMs, latestMs));
  }
  if (!traits.nextUnitMs) return undefined;
  const next = traits.nextUnitMs(remaining, resetAfterMs);
  return seconds(Math.max(next, (remaining * window) / limit));
}

function structuredFields(partitionKeys: PartitionKeys | undefined): WriteLists {
  return (target, res, { decision, texts: alone, stacked }) => {
    const earlier = stacked ? target.getHeader(res, 'RateLimit-Policy') : undefined;
    const isLater = stacked && isStructured(earlier);
    const texts = isLater ? textsAfter(earlier, decision.set) : alone;
    const keys = partitionKeys?.(decision);
    let items = '';
    for (const i of texts.enforced) {
      if (items !== '') items += ', ';
      if (decision.reason === 'banned') {
        items += `${texts.items[i]}0;t=${retryAfterSeconds(decision)}`;
      } else {
        const verdict = decision.policies[i]!;
        const window = effectiveWindow(texts.policies[i]!, verdict, decision);
        items += texts.items[i]! + verdict.remaining + (window === undefined ? '' : `;t=${window}`);
      }
      if (keys) items += keys[i]!;
    }
    const policies = keys ? withKeys(texts, keys) : texts.structured;
    target.setHeader(res, 'RateLimit-Policy', isLater ? `${earlier}, ${policies}` : policies);
    target.setHeader(res, 'RateLimit', stacked ? joined(target.getHeader(res, 'RateLimit'), items) : items);
    return texts;
  };
}

/** A function of its own, because V8 allocates a closure's context at each entry of a function with one. */
function withKeys({ enforced, policyItems }: HeaderTexts, keys: readonly string[]): string {
  return enforced.map((i) => policyItems[i]! + keys[i]!).join(', ');
}

const policyField: WriteQuota = (target, res, _quota, { texts: { plain }, stacked }) => {
  const earlier = stacked ? target.getHeader(res, 'RateLimit-Policy') : undefined;
  if (isStructured(earlier)) return;
  target.setHeader(res, 'RateLimit-Policy', typeof earlier === 'string' ? `${earlier}, ${plain}` : plain);
};

/** Appends to the list of an earlier limiter. A list of an older dialect is replaced. */
function joined(earlier: unknown, own: string): string {
  return isStructured(earlier) ? `${earlier}, ${own}` : own;
}

function isStructured(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith('"');
}

const oneField: WriteQuota = (target, res, quota, { stacked }) => {
  const earlier = stacked ? target.getHeader(res, 'RateLimit') : undefined;
  if (isStructured(earlier)) return;
  if (typeof earlier === 'string' && isTighter(/remaining=(\d+)/.exec(earlier)?.[1], quota)) return;
  const { limit, remaining, resetMs } = quota;
  target.setHeader(res, 'RateLimit', `limit=${limit}, remaining=${remaining}, reset=${seconds(resetMs)}`);
};

/** @param resetOf returns the field's value for a reset in `ms` */
function separateFields(prefix: string, resetOf: (ms: number) => number): WriteQuota {
  const [limit, remaining, reset] = [`${prefix}-Limit`, `${prefix}-Remaining`, `${prefix}-Reset`] as const;
  return (target, res, quota, { stacked }) => {
    if (stacked && isTighter(target.getHeader(res, remaining), quota)) return;
    target.setHeader(res, limit, String(quota.limit));
    target.setHeader(res, remaining, String(quota.remaining));
    target.setHeader(res, reset, String(resetOf(quota.resetMs)));
  };
}

/**
 * Whether the earlier quota stays in the fields of dialects with a single quota. The smallest remaining quota stays, and a denial always
 * replaces it.
 */
function isTighter(earlier: unknown, { allowed, remaining }: QuotaItem): boolean {
  return allowed && Number(earlier ?? Infinity) <= remaining;
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
