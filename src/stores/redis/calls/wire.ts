import { HeadgateError } from '../../../common/errors.js';
import { costAt } from '../../../contract/costs.js';
import type { CompiledPolicy } from '../../../contract/policy.js';
import { recordDimensions } from '../../../contract/overrides.js';
import { malformedReply, type ChangeReply, type Reply, type UsageReply } from '../../../contract/reply.js';
import type { PolicySet, Query } from '../../../contract/store.js';
import type { Crossing } from '../../../contract/crossing.js';
import { addVerdict, soleVerdict } from '../../../contract/verdicts.js';

/** The list of policies, then their params, as `policies.lua` reads them at a time (ms since the epoch). */
export function policyArgs(policies: readonly CompiledPolicy[], now: number): string[] {
  let list = '';
  let names = '';
  const params: string[] = [];
  policies.forEach((policy, i) => {
    // Of a pool and its tenant, only the pool's params are sent.
    const isTenant = policy.isHidden && policies[i - 1]?.params === policy.params;
    const flags = (policy.shadow ? 1 : 0) + (policy.attempts ? 2 : 0) + (policy.share === undefined ? 0 : 4);
    list += isTenant ? 8 : flags;
    names += ` ${policy.kernel}`;
    if (!isTenant) params.push(...paramArgs(policy, now));
  });
  return [list + names, ...params];
}

/** The params that a policy's Lua file reads. */
export function paramArgs({ params, sent }: CompiledPolicy, now: number): string[] {
  return (sent ? sent(now) : Object.values(params)).map(String);
}

/** A cost as `evaluate.lua` reads it. */
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

/** The factor of `resetAfter` in a verdict that is one number. The remainder is `remaining`. See `headgate_add_verdict` in `common.lua`. */
const RESET_FACTOR = 2 ** 20;

/** Precedes a ban in a reply. */
const BAN_MARK = -3;

/**
 * The answers to the queries of one call. An error of one query does not affect the others. The caller checks each answer.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY` if the count of answers differs from the count of queries
 */
export function decode(reply: unknown, queries: number, set: PolicySet, withIds = false): (Reply | Error)[] {
  const count = set.policies.length;
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const numbers = reply as number[];
  const crossings = Array.isArray(reply[reply.length - 1]) ? takeCrossings(reply) : undefined;
  const asked = numbers[0]!;
  const answers: (Reply | Error)[] = [];
  let at = 1;
  for (let i = 0; i < queries; i++) {
    const first: unknown = reply[at];
    // Behind 0, the request was decided now. Otherwise it repeats the request of that step, or of other policies.
    const origin = withIds && typeof first === 'number' ? numbers[at++]! : 0;
    const step = origin > 0 ? origin : asked;
    const now = Math.floor(step / 1000);
    const repeated = origin === 0 ? undefined : ({ repeated: origin > 0 ? 'charged' : 'elsewhere' } as const);
    if (typeof first === 'string') {
      answers.push(new HeadgateError('HEADGATE_STORE_ERROR', first));
      at++;
      continue;
    }
    if (first === null) {
      const names = recordDimensions(set);
      const clientChanges = Object.fromEntries(names.map((name, n) => [name, String(reply[at + 1 + n])]));
      answers.push({ now, step, ban: 0, verdicts: [], clientChanges });
      at += 1 + names.length;
      continue;
    }
    const hasBan = numbers[at] === BAN_MARK;
    const ban = hasBan ? numbers[at + 1]! : 0;
    if (hasBan) at += 2;
    const packed: unknown = reply[at];
    if (ban > 0) {
      answers.push({ now, step, ban, verdicts: [] });
    } else if (count === 1 && typeof packed === 'number' && packed >= 0) {
      // The most common reply.
      const verdicts = unpacked(packed);
      answers.push(repeated ? { now, step, ban, verdicts, ...repeated } : { now, step, ban, verdicts });
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
      answers.push({ now, step, ban, verdicts, ...(limits && { limits }), ...repeated });
    }
  }
  if (at !== reply.length) throw malformedReply(reply);
  if (crossings) for (const [i, own] of crossings) Object.assign(answers[i]!, { crossings: own });
  return answers;
}

/**
 * The reply to a question about usage: an answer as of `decode`, but with verdicts beside a ban, and with the records behind the verdicts.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY`; or `HEADGATE_STORE_ERROR` if the data cannot be read
 */
export function decodeUsage(reply: unknown, set: PolicySet): UsageReply {
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const values = [...(reply as unknown[])];
  const isAnswer = typeof values[1] === 'number';
  const names = isAnswer && set.overrides ? recordDimensions(set) : [];
  const texts = values.splice(values.length - names.length);
  const [, ban = 0] = values[1] === BAN_MARK ? (values.splice(1, 2) as number[]) : [];
  const [answer] = decode(values, 1, set);
  if (answer instanceof Error) throw answer;
  return { ...answer!, ban, records: Object.fromEntries(names.map((name, i) => [name, String(texts[i])])) };
}

/**
 * The reply to a call of `adjust.lua`: the charged or returned units.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY`
 */
export function decodeChange(reply: unknown, count: number): ChangeReply {
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const numbers = reply as number[];
  const crossings = Array.isArray(reply.at(-1)) ? takeCrossings(reply).get(0) : undefined;
  const step = numbers[0]!;
  const charged: number[] = [];
  const verdicts: number[] = [];
  let at = 1;
  for (let n = 0; n < count; n++) {
    charged.push(numbers[at]!);
    at = read(numbers, at + 1, verdicts);
  }
  if (at !== reply.length) throw malformedReply(reply);
  return { now: Math.floor(step / 1000), step, ban: 0, verdicts, charged, ...(crossings && { crossings }) };
}

/** Takes the crossings of `thresholds.lua` from the end of a reply, by the position of the request. */
function takeCrossings(reply: unknown[]): Map<number, Crossing[]> {
  const crossings = new Map<number, Crossing[]>();
  const numbers = reply.pop() as number[];
  for (let n = 0; n < numbers.length; n += 6) {
    const [request, at, level, used, limit, resetAfterMs] = numbers.slice(n, n + 6) as Six;
    crossings.set(request, [...(crossings.get(request) ?? []), { at, level, used, limit, resetAfterMs }]);
  }
  return crossings;
}

type Six = [number, number, number, number, number, number];

/** A verdict that is one number, which is always an admission. */
function unpacked(packed: number): number[] {
  const reset = Math.floor(packed / RESET_FACTOR);
  return soleVerdict(0, packed - reset * RESET_FACTOR, reset);
}

/** Reads one verdict, and returns the position of the next one. */
function read(numbers: readonly number[], at: number, verdicts: number[]): number {
  const first: unknown = numbers[at];
  if (typeof first === 'number' && first >= 0) {
    verdicts.push(...unpacked(first));
    return at + 1;
  }
  if (first !== -1) throw malformedReply(numbers);
  addVerdict(verdicts, numbers[at + 1]!, numbers[at + 2]!, numbers[at + 3]!);
  return at + 4;
}
