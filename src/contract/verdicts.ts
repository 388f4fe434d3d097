import type { Verdict } from '../common/decision.js';
import { MAX_UNITS } from '../common/validate.js';
import type { CompiledPolicy } from './policy.js';

/**
 * The answers of a set's policies to a query: three integers per policy, in the set's order.
 * - `wait`, ms:
 *   - 0: admitted;
 *   - above 0: denied, and the same cost will be admitted after `wait` ms;
 *   - -1, which is {@link NEVER}: denied, because the cost exceeds the capacity;
 *   - below -1: admitted, and -1 - `wait` is a time: for a leaky bucket with `maxDelay` the time to hold the request; for a policy that
 *     counts attempts, if another policy denied the request, the time for which the same cost is denied from now on.
 * - `remaining`: the units that can be spent at once after this decision.
 * - `resetAfter`: the time until the policy is back at its full quota, ms.
 *
 * The answers are one flat array, which saves an object per policy and request. Only this file knows the positions.
 */
export type Verdicts = readonly number[];

/** The `wait` of a cost that can never be admitted. */
export const NEVER = -1;

const EACH = 3;

export function countOf(verdicts: Verdicts): number {
  return verdicts.length / EACH;
}

/** The `wait` of the i-th policy, ms: see {@link Verdicts}. */
export function waitOf(verdicts: Verdicts, i: number): number {
  return verdicts[EACH * i]!;
}

/** The remaining units of the i-th policy. */
export function remainingOf(verdicts: Verdicts, i: number): number {
  return verdicts[EACH * i + 1]!;
}

/** The time until the i-th policy is back at its full quota, ms. */
export function resetOf(verdicts: Verdicts, i: number): number {
  return verdicts[EACH * i + 2]!;
}

/** The i-th verdict as users read it: a policy's answer for a key. */
export function verdictOf(
  { name, limit }: CompiledPolicy,
  key: string,
  verdicts: Verdicts,
  i: number,
): Verdict {
  const wait = verdicts[EACH * i]!;
  const allowed = admits(wait);
  return {
    name,
    key,
    allowed,
    limit,
    remaining: verdicts[EACH * i + 1]!,
    retryAfterMs: allowed ? 0 : wait === NEVER ? undefined : wait,
    resetAfterMs: verdicts[EACH * i + 2]!,
  };
}

/** Whether these can be the verdicts of `count` policies. */
export function areVerdicts(verdicts: Verdicts, count: number): boolean {
  if (verdicts.length !== EACH * count) return false;
  for (let at = 0; at < verdicts.length; at += EACH) {
    const remaining = verdicts[at + 1]!;
    const reset = verdicts[at + 2]!;
    if (!Number.isSafeInteger(verdicts[at]) || !Number.isSafeInteger(reset) || reset < 0) return false;
    if (!Number.isSafeInteger(remaining) || remaining < 0 || remaining > MAX_UNITS) return false;
  }
  return true;
}

/** Whether a verdict with this `wait` admits, at once or after a hold. */
export function admits(wait: number): boolean {
  return wait === 0 || wait < NEVER;
}

/**
 * Time for which the same cost is denied from now on, ms, or {@link NEVER} if for good.
 *
 * @param attempts whether the policy counts attempts
 */
export function nextWait(wait: number, attempts: boolean): number {
  if (wait >= NEVER) return wait;
  return attempts ? NEVER - wait : 0;
}

/** The time until every policy, also after charging the attempt, admits the same cost. Undefined if never. */
export function retryAfterOf(policies: readonly CompiledPolicy[], verdicts: Verdicts): number | undefined {
  let longest = 0;
  for (let i = 0; EACH * i < verdicts.length; i++) {
    const { shadow, attempts } = policies[i]!;
    if (shadow) continue;
    const wait = nextWait(verdicts[EACH * i]!, attempts);
    if (wait === NEVER) return undefined;
    longest = Math.max(longest, wait);
  }
  return longest;
}

/** The longest time for which a policy holds the request, ms. */
export function delayOf(policies: readonly CompiledPolicy[], verdicts: Verdicts): number {
  let delay = 0;
  for (let i = 0; EACH * i < verdicts.length; i++)
    if (!policies[i]!.shadow) delay = Math.max(delay, NEVER - verdicts[EACH * i]!);
  return delay;
}

/** The same verdicts, but a request that is admitted for a later turn is denied until then. */
export function withoutTurns(verdicts: Verdicts): number[] {
  return verdicts.map((value, at) => (at % EACH === 0 && value < NEVER ? NEVER - value : value));
}

/** The same verdicts after a time, by which requests are held for less. */
export function afterwards(verdicts: Verdicts, ms: number): Verdicts {
  if (!verdicts.some((value, at) => at % EACH === 0 && value < NEVER)) return verdicts;
  const later = (wait: number): number => (NEVER - wait > ms ? wait + ms : 0);
  return verdicts.map((value, at) => (at % EACH === 0 && value < NEVER ? later(value) : value));
}

/** The `wait` of a charged attempt, from the `wait` that the same cost would have next. See {@link Verdicts}. */
export function attemptWait(next: number): number {
  return next === 0 ? 0 : NEVER - next;
}

export function some(verdicts: Verdicts, count: number): Verdicts {
  return verdicts.slice(0, EACH * count);
}

/** The same verdicts with another `wait` of the i-th policy. */
export function replaceWait(verdicts: Verdicts, i: number, wait: number): Verdicts {
  return verdicts.with(EACH * i, wait);
}

/** The verdicts of a set of one policy, as an array literal, which allocates exactly the needed room. */
export function soleVerdict(wait: number, remaining: number, reset: number): number[] {
  return [small(wait), small(remaining), small(reset)];
}

export function addVerdict(to: number[], wait: number, remaining: number, reset: number): void {
  to.push(small(wait), small(remaining), small(reset));
}

/** The same number as a 32-bit integer if possible, which V8 stores in place, whereas results of fractions are objects. */
function small(value: number): number {
  const integer = value | 0;
  return integer === value ? integer : value;
}
