// Predicts the fields and the body of an answer from the decisions on its request, by docs/headers.md alone.
import type { Decision, Verdict } from 'headgate';
import { compare } from '../../oracle/compare.js';
import type { Policy } from '../../oracle/model/types.js';
import type { Answer } from './client.js';

/** A decision on a request, with the policies that decided. */
export interface Made {
  readonly decision: Decision;
  /** The policies in force for the request's tier and keys. */
  readonly policies: readonly Policy[];
  readonly shadow: boolean;
}

interface Item extends Made {
  readonly policy: Policy;
  readonly name: string;
  readonly verdict: Verdict | undefined;
}

const seconds = (ms: number) => Math.ceil(ms / 1000);
const PERIODS = { hour: 3600, day: 86_400, week: 604_800, month: 2_678_400 };
const isSlot = ({ algorithm }: Policy) => algorithm === 'concurrency';
const isBanned = ({ decision }: Made) => decision.reason === 'banned';

/** The items of the structured lists. Equal names are numbered. */
function itemsOf(all: readonly Made[]): Item[] {
  const items: Item[] = [];
  for (const made of all) {
    // A store that takes longer than `wait` leaves no verdicts.
    if (made.shadow || (made.decision.policies.length === 0 && !isBanned(made))) continue;
    const taken = new Set(items.map(({ name }) => name));
    for (const policy of made.policies) {
      if (policy.shadow) continue;
      let name = policy.name;
      for (let n = 2; taken.has(name); n++) name = `${policy.name}-${n}`;
      const verdict = made.decision.policies.find((each) => each.name === policy.name);
      items.push({ ...made, policy, name, verdict });
    }
  }
  return items;
}

function policyItem({ name, policy }: Item): string {
  const { algorithm, limit, window, period } = policy;
  if (isSlot(policy)) return `"${name}";q=${limit};qu="concurrent-requests"`;
  return `"${name}";q=${limit};w=${algorithm === 'calendar' ? PERIODS[period!] : seconds(window)}`;
}

/** The item of `RateLimit`, or a pattern of it where the docs leave the time open. */
function quotaItem(item: Item): string {
  const { name, policy, verdict, decision } = item;
  const start = `"${name}";r=`;
  if (isBanned(item)) return `${start}0;t=${Math.max(1, seconds(decision.retryAfterMs!))}`;
  const { remaining, allowed, retryAfterMs, resetAfterMs } = verdict!;
  if (!allowed && retryAfterMs !== undefined) {
    const isEarlier = isSlot(policy) && (decision.retryAfterMs ?? Infinity) < retryAfterMs;
    return `${start}${remaining};t=${seconds(isEarlier ? decision.retryAfterMs! : retryAfterMs)}`;
  }
  if (isSlot(policy)) return `${start}${remaining}`;
  return ['fixed-window', 'calendar'].includes(policy.algorithm) && remaining === 0
    ? `${start}${remaining};t=${seconds(resetAfterMs)}`
    : `${start}${remaining};t=*`;
}

interface Quota {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** Undefined if the docs leave it open. */
  readonly reset: number | undefined;
}

/** The single quotas of a limiter that the older fields may show. */
function quotasOf(items: readonly Item[]): Quota[] {
  const quotas = items.filter(({ policy }) => !isSlot(policy));
  return quotas.flatMap((item): Quota[] => {
    const { decision, verdict, policy } = item;
    const hasAttempts = quotas.some((each) => each.policy.attempts);
    if (isBanned(item))
      return [{ allowed: false, limit: policy.limit, remaining: 0, reset: seconds(decision.retryAfterMs!) }];
    const { allowed, remaining, retryAfterMs, resetAfterMs } = verdict!;
    const isTightest = quotas.every(({ verdict: other }) =>
      other!.allowed !== allowed
        ? !allowed
        : allowed
          ? remaining <= other!.remaining
          : (retryAfterMs ?? Infinity) >= (other!.retryAfterMs ?? Infinity),
    );
    if (!isTightest) return [];
    const isFull = /-full$/.test(decision.reason ?? '');
    const reset =
      isFull || (!allowed && hasAttempts) ? undefined : seconds((!allowed && retryAfterMs) || resetAfterMs);
    return [{ allowed: allowed && !isFull, limit: policy.limit, remaining, reset }];
  });
}

/** @returns the first difference, or undefined */
export function differenceOf(answer: Answer, all: readonly Made[]): string | undefined {
  const { headers } = answer;
  const items = itemsOf(all);
  const lists = {
    'ratelimit-policy': items.map(policyItem).join(', ') || undefined,
    ratelimit: items.map(quotaItem).join(', ') || undefined,
  };
  // A time of at least a second that the docs leave open.
  const pattern = lists.ratelimit?.split(', ').map((item, i) => {
    const got = headers['ratelimit']?.split(', ')[i] ?? '';
    return item.endsWith('*') && got.startsWith(item.slice(0, -1)) && /;t=\d+$/.test(got) ? got : item;
  });
  const list = (name: string) => headers[name];
  return (
    compare(list('ratelimit-policy'), lists['ratelimit-policy'], 'RateLimit-Policy') ??
    compare(list('ratelimit'), pattern?.join(', '), 'RateLimit') ??
    singles(headers, all, items) ??
    denial(answer, all, items)
  );
}

/** The three fields of draft-6: the tightest quota of the stack. */
function singles(
  headers: Answer['headers'],
  all: readonly Made[],
  items: readonly Item[],
): string | undefined {
  let shown: Quota[] = [];
  for (const made of all) {
    const own = quotasOf(items.filter(({ decision }) => decision === made.decision));
    if (own.length === 0) continue;
    const isKept = shown.length > 0 && own[0]!.allowed && shown[0]!.remaining <= own[0]!.remaining;
    if (!isKept) shown = own;
  }
  const text = (name: string) => headers[`ratelimit-${name}`];
  if (shown.length === 0) return compare(text('remaining'), undefined, 'RateLimit-Remaining');
  const isShown = shown.some(
    ({ limit, remaining, reset = text('reset') }) =>
      text('limit') === String(limit) &&
      text('remaining') === String(remaining) &&
      text('reset') === String(reset),
  );
  if (isShown) return undefined;
  const got = ['limit', 'remaining', 'reset'].map(text).join();
  return `RateLimit-Limit, -Remaining and -Reset: got ${got}, expected ${JSON.stringify(shown)}`;
}

/** Status, Retry-After and body of a denial. */
function denial(answer: Answer, all: readonly Made[], items: readonly Item[]): string | undefined {
  const { decision } = all.at(-1) ?? {};
  const { headers, status, text } = answer;
  if (!decision || decision.allowed) return compare(headers['retry-after'], undefined, 'Retry-After');
  const isFull = decision.reason === 'queue-full' || decision.reason === 'store-error';
  const wait = decision.retryAfterMs;
  const violated = items
    .filter((item) => item.decision === decision && item.verdict?.allowed === false)
    .map(({ name }) => name);
  const [type, title] = isFull
    ? ['temporary-reduced-capacity', 'Temporary Reduced Capacity']
    : isBanned(all.at(-1)!)
      ? ['abnormal-usage-detected', 'Abnormal Usage Detected']
      : ['quota-exceeded', 'Quota Exceeded'];
  const isTooMuch = decision.reason === 'cost-exceeds-capacity';
  const expected = isFull ? 503 : 429;
  return (
    compare(status, expected, 'status') ??
    compare(headers['content-type'], 'application/problem+json', 'Content-Type') ??
    compare(headers['cache-control'], 'no-store', 'Cache-Control') ??
    compare(
      headers['retry-after'],
      wait === undefined ? undefined : String(Math.max(1, seconds(wait))),
      'Retry-After',
    ) ??
    compare(
      JSON.parse(text),
      {
        type: `https://iana.org/assignments/http-problem-types#${type}`,
        title,
        status: expected,
        ...(isTooMuch ? { detail: 'The request costs more than the policy ever admits at once.' } : {}),
        ...(isFull ? {} : { 'violated-policies': violated }),
      },
      'body',
    )
  );
}
