import { HeadgateError } from '../../../common/errors.js';
import { oncePer } from '../../../common/lazy.js';
import { costAt } from '../../../contract/costs.js';
import type { CompiledPolicy } from '../../../contract/policy.js';
import {
  malformedReply,
  replyWith,
  type ChangeReply,
  type Reply,
  type UsageReply,
} from '../../../contract/reply.js';
import { stepOf, type PolicySet, type Query } from '../../../contract/store.js';
import type { Feature, Writable } from '../../../features/feature.js';
import { looksOf } from '../../../features/features.js';
import { addVerdict, soleVerdict, type Verdicts } from '../../../contract/verdicts.js';
import { packParams } from '../packed-params.js';

/** The list of policies, then their params, as `policies.lua` reads them at a time (ms since the epoch). */
export function policiesArg(policies: readonly CompiledPolicy[], now: number): string {
  let list = '';
  let names = '';
  let params = '';
  policies.forEach((policy, i) => {
    // Of a pool and its tenant, only the pool's params are sent.
    const isTenant = policy.isHidden && policies[i - 1]?.params === policy.params;
    const flags = (policy.shadow ? 1 : 0) + (policy.attempts ? 2 : 0) + (policy.share === undefined ? 0 : 4);
    list += isTenant ? 8 : flags;
    names += ` ${policy.kernel}`;
    if (!isTenant) params += paramsArg(policy, now);
  });
  return `${list}${names}\n${params}`;
}

/** The last params of policies whose params depend on the time, because they rarely change. */
const lastSent = oncePer((_: CompiledPolicy) => ({ numbers: [] as readonly number[], arg: '' }));

/** The params that a policy's Lua file reads. */
export function paramsArg(policy: CompiledPolicy, now: number): string {
  const { kernel, params, sent } = policy;
  if (!sent) return packParams(kernel, Object.values(params));
  const numbers = sent(now);
  const last = lastSent(policy);
  if (numbers.some((number, i) => number !== last.numbers[i]))
    Object.assign(last, { numbers, arg: packParams(kernel, numbers) });
  return last.arg;
}

export function costArg(cost: number, peek: boolean): string {
  return String(peek ? -1 - cost : cost);
}

/** Appends the costs of queries: nothing if all cost 1, a single cost if all are equal, one per policy if the costs of a query differ. */
export function pushCosts(args: string[], queries: readonly Query[], peek: boolean): void {
  const { cost, costs } = queries[0]!;
  const isAlone = queries.length === 1;
  if (isAlone ? costs !== undefined : queries.some((query) => query.costs !== undefined)) {
    for (const query of queries)
      for (const i of query.set.policies.keys()) args.push(costArg(costAt(query, i), peek));
    return;
  }
  const equal = isAlone || queries.every((query) => query.cost === cost);
  if (!equal) for (const query of queries) args.push(costArg(query.cost, peek));
  else if (cost !== 1 || peek) args.push(costArg(cost, peek));
}

/** The verdicts of an answer that has none. */
const NO_VERDICTS: Verdicts = [];

/** The factor of `resetAfter` in a verdict that is one number, which is always an admission. The remainder is `remaining`. See `headgate_add_verdict` in `common.lua`. */
const RESET_FACTOR = 2 ** 20;

/**
 * The answers to the queries of one call. An error of one query does not affect the others. The caller checks each answer.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY` if the count of answers differs from the count of queries
 */
export function decode(
  reply: unknown,
  queries: number,
  set: PolicySet,
  features: readonly Feature[] = [],
): (Reply | Error)[] {
  const count = set.policies.length;
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const numbers = reply as number[];
  const ends = features.map(({ readEnd }) => readEnd?.(reply));
  const asked = numbers[0]!;
  const drains =
    queries > 1 &&
    set.policies.some(({ traits }) => traits.drains) &&
    !features.some(({ sharesStep }) => sharesStep);
  const answers: (Reply | Error)[] = [];
  let at = 1;
  for (let i = 0; i < queries; i++) {
    // Of a bucket's charges, only those after a returned one move, so each has its own step.
    const step = drains ? stepOf(asked, i) : asked;
    const now = Math.floor(step / 1000);
    const answer: Writable<Reply> = { now, step, ban: 0, verdicts: NO_VERDICTS };
    for (const feature of features) if (feature.read) at = feature.read(reply, at, answer, read);
    if (answer.first) {
      answers.push(answer);
      continue;
    }
    const first: unknown = reply[at];
    if (typeof first === 'string') {
      answers.push(new HeadgateError('HEADGATE_STORE_ERROR', first));
      at++;
      continue;
    }
    if (first === null) {
      at++;
      for (const feature of features) at = feature.readUndecided?.(reply, at, answer, set) ?? at;
      answers.push(answer);
      continue;
    }
    if (count === 1 && typeof first === 'number' && first >= 0) {
      // The most common reply.
      const reset = Math.floor(first / RESET_FACTOR);
      answer.verdicts = soleVerdict(0, first - reset * RESET_FACTOR, reset);
      at++;
    } else {
      const verdicts: number[] = [];
      let limits: number[] | undefined;
      for (let n = 0; n < count; n++) {
        if (numbers[at] === -2) {
          limits ??= set.policies.map(({ limit }) => limit);
          limits[n] = numbers[at + 1]!;
          at += 2;
        }
        at = read(numbers, at, verdicts);
      }
      answer.verdicts = verdicts;
      if (limits) answer.limits = limits;
    }
    answers.push(answer);
  }
  if (at !== reply.length) throw malformedReply(reply);
  for (const end of ends) for (const [i, fields] of end ?? []) Object.assign(answers[i]!, fields);
  return answers;
}

/**
 * The reply to a question about usage: an answer as of `decode`, and further fields behind the verdicts.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY`; or `HEADGATE_STORE_ERROR` if the data cannot be read
 */
export function decodeUsage(reply: unknown, set: PolicySet): UsageReply {
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const values = [...(reply as unknown[])];
  const isAnswer = typeof values[1] === 'number';
  const looks = looksOf(set);
  const fields = isAnswer ? looks.map(({ readUsage }) => readUsage?.(values, set)) : [];
  const [answer] = decode(values, 1, set, looks);
  if (answer instanceof Error) throw answer;
  return Object.assign({ ...answer!, records: {} }, ...fields) as UsageReply;
}

/**
 * The reply to a call of `adjust.lua`: the charged or returned units.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY`
 */
export function decodeChange(reply: unknown, count: number, features: readonly Feature[]): ChangeReply {
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const numbers = reply as number[];
  const ends = features.map(({ readEnd }) => readEnd?.(reply).get(0));
  const step = numbers[0]!;
  const charged: number[] = [];
  const verdicts: number[] = [];
  let at = 1;
  for (let n = 0; n < count; n++) {
    charged.push(numbers[at]!);
    at = read(numbers, at + 1, verdicts);
  }
  if (at !== reply.length) throw malformedReply(reply);
  return Object.assign(
    { ...replyWith(verdicts, Math.floor(step / 1000), step), charged },
    ...ends,
  ) as ChangeReply;
}

/** Reads one verdict, and returns the position of the next one. */
function read(numbers: readonly number[], at: number, verdicts: number[]): number {
  const first: unknown = numbers[at];
  if (typeof first === 'number' && first >= 0) {
    const reset = Math.floor(first / RESET_FACTOR);
    addVerdict(verdicts, 0, first - reset * RESET_FACTOR, reset);
    return at + 1;
  }
  if (first !== -1) throw malformedReply(numbers);
  addVerdict(verdicts, numbers[at + 1]!, numbers[at + 2]!, numbers[at + 3]!);
  return at + 4;
}
