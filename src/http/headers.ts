import type { Decision, Verdict } from '../decision.js';
import { invalidOption } from '../errors.js';
import type { CompiledPolicy } from '../policy.js';
import type { PolicySet } from '../stores/store.js';
import { checkChoice } from '../validate.js';

/**
 * Which fields tell the client its quota:
 * - `'draft-11'`: `RateLimit` and `RateLimit-Policy` as structured lists, an item per policy;
 * - `'draft-7'`: `RateLimit: limit=100, remaining=42, reset=17`, `RateLimit-Policy: 100;w=60`;
 * - `'draft-6'`: `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, `RateLimit-Policy`;
 * - `'legacy'`: `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` (seconds since 1970).
 */
export type HeaderDialect = 'draft-6' | 'draft-7' | 'draft-11' | 'legacy';

/** Where the fields are written. */
export interface HeaderTarget<Res> {
  getHeader(res: Res, name: string): unknown;
  setHeader(res: Res, name: string, value: string): void;
}

/** Writes the fields of one decision. `stacked`: another limiter may have written before, on the same response. */
export type WriteHeaders = <Res>(
  target: HeaderTarget<Res>,
  res: Res,
  decision: Decision,
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
  const writers: WriteHeaders[] = [];
  if (chosen.has('draft-6')) writers.push(separateFields('RateLimit', secondsToReset));
  if (chosen.has('legacy')) writers.push(separateFields('X-RateLimit', dateOfReset));
  if (chosen.has('draft-11')) writers.push(structuredFields);
  else {
    if (chosen.has('draft-7')) writers.push(oneField);
    if (chosen.has('draft-7') || chosen.has('draft-6')) writers.push(policyField);
  }
  return (target, res, decision, stacked) => {
    if (!speaksOfQuota(decision)) return;
    for (const write of writers) write(target, res, decision, stacked);
  };
}

/** Policies on the wire: those that are enforced. */
function speaksOfQuota(decision: Decision): boolean {
  return (
    textsOf(decision.set).enforced.length > 0 &&
    (decision.policies.length > 0 || decision.reason === 'banned')
  );
}

/** What of a policy set is the same in every response. */
interface Texts {
  /** The index of each policy that is not a shadow: a client is not told of what it need not heed. */
  readonly enforced: readonly number[];
  /** Each policy's name, as a JSON string; and the beginning of its item in `RateLimit`. */
  readonly names: readonly string[];
  readonly items: readonly string[];
  /** `RateLimit-Policy`, of draft-11 and of those before it. */
  readonly structured: string;
  readonly plain: string;
}

const texts = new WeakMap<PolicySet, Texts>();
let lastSet: PolicySet | undefined;
let lastTexts: Texts | undefined;

export function textsOf(set: PolicySet): Texts {
  if (set === lastSet) return lastTexts!;
  let found = texts.get(set);
  if (!found) texts.set(set, (found = compileTexts(set)));
  lastSet = set;
  lastTexts = found;
  return found;
}

function compileTexts(set: PolicySet): Texts {
  const { policies } = set;
  const enforced = [...policies.keys()].filter((i) => !policies[i]!.shadow);
  const strings = policies.map((policy) => structuredString(nameOf(set, policy)));
  return {
    enforced,
    names: policies.map((policy) => JSON.stringify(nameOf(set, policy))),
    items: strings.map((string) => `${string};r=`),
    structured: enforced.map((i) => strings[i]! + quota(policies[i]!)).join(', '),
    // The older drafts know no quota without a window.
    plain: enforced
      .map((i) => policies[i]!)
      .filter(({ kernel }) => kernel !== 'concurrency')
      .map(({ limit, window }) => `${limit};w=${seconds(window)}`)
      .join(', '),
  };
}

/** A sole policy without a name goes by its limiter's, so that those of several limiters can be told apart. */
function nameOf({ name, policies }: PolicySet, policy: CompiledPolicy): string {
  return policies.length === 1 && policy.name === 'default' && /^[\x20-\x7e]{1,64}$/.test(name)
    ? name
    : policy.name;
}

/** RFC 9651, section 3.3.3. */
function structuredString(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

function quota({ kernel, limit, window }: CompiledPolicy): string {
  return kernel === 'concurrency'
    ? `;q=${limit};qu="concurrent-requests"`
    : `;q=${limit};w=${seconds(window)}`;
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}

/** How long a denied client is to stay away, ms; an answer also where no policy has one. */
function waitMs(decision: Decision): number {
  if (decision.reason === 'cost-exceeds-capacity') {
    // There is no such time. A client that tries for ever does so once a window.
    return decision.set.policies.find(({ name }) => name === decision.policy)?.window ?? 1;
  }
  return decision.retryAfterMs || 1;
}

/** `Retry-After`: never too early. */
export function retryAfterSeconds(decision: Decision): number {
  return seconds(waitMs(decision));
}

/** Time until the whole quota is back, ms; of a denial, until the request is admitted: some clients wait that long. */
function resetMs(decision: Decision): number {
  return decision.retryAfterMs === 0 ? decision.resetAfterMs : waitMs(decision);
}

function secondsToReset(decision: Decision): number {
  return seconds(resetMs(decision));
}

/** In seconds since 1970. */
function dateOfReset(decision: Decision): number {
  return seconds(Date.now() + resetMs(decision));
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

function structuredItems(decision: Decision): string {
  const { enforced, items } = textsOf(decision.set);
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
  const { structured } = textsOf(decision.set);
  const items = structuredItems(decision);
  target.setHeader(
    res,
    'RateLimit-Policy',
    stacked ? joined(target.getHeader(res, 'RateLimit-Policy'), structured) : structured,
  );
  target.setHeader(res, 'RateLimit', stacked ? joined(target.getHeader(res, 'RateLimit'), items) : items);
};

const policyField: WriteHeaders = (target, res, decision, stacked) => {
  const { plain } = textsOf(decision.set);
  if (plain === '') return;
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

const oneField: WriteHeaders = (target, res, decision, stacked) => {
  const earlier = stacked ? target.getHeader(res, 'RateLimit') : undefined;
  if (isStructured(earlier)) return;
  if (typeof earlier === 'string' && isTighter(/remaining=(\d+)/.exec(earlier)?.[1], decision)) return;
  const reset = secondsToReset(decision);
  target.setHeader(
    res,
    'RateLimit',
    `limit=${decision.limit}, remaining=${remainingOf(decision)}, reset=${reset}`,
  );
};

function separateFields(prefix: string, resetOf: (decision: Decision) => number): WriteHeaders {
  const [limit, remaining, reset] = [`${prefix}-Limit`, `${prefix}-Remaining`, `${prefix}-Reset`] as const;
  return (target, res, decision, stacked) => {
    if (stacked && isTighter(target.getHeader(res, remaining), decision)) return;
    target.setHeader(res, limit, String(decision.limit));
    target.setHeader(res, remaining, String(remainingOf(decision)));
    target.setHeader(res, reset, String(resetOf(decision)));
  };
}

/** Fields that have room for one quota keep the tightest; who denies has the last word. */
function isTighter(earlier: unknown, decision: Decision): boolean {
  return earlier !== undefined && decision.allowed && Number(earlier) <= decision.remaining;
}

function remainingOf(decision: Decision): number {
  return decision.reason === 'banned' ? 0 : decision.remaining;
}
