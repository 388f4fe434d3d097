import { HeadgateError } from '../../common/errors.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { malformedReply } from '../reply.js';
import type { ChangeReply, Reply } from '../../contract/store.js';
import { addVerdict, soleVerdict } from '../../contract/verdicts.js';

/** How many policies, and each of them, as `policies.lua` reads them at a moment, ms since the epoch. */
export function policyArgs(policies: readonly CompiledPolicy[], now: number): string[] {
  return [
    String(policies.length),
    ...policies.flatMap((policy) => [
      policy.kernel,
      String((policy.shadow ? 1 : 0) + (policy.attempts ? 2 : 0)),
      ...paramArgs(policy, now),
    ]),
  ];
}

/** What a policy's Lua file reads. */
export function paramArgs({ params, sent }: CompiledPolicy, now: number): string[] {
  return (sent ? sent(now) : Object.values(params)).map(String);
}

/** A cost, as `evaluate.lua` reads it. */
export function costArg(cost: number, peek: boolean): string {
  return String(peek ? -1 - cost : cost);
}

/** What a verdict of one number has `remaining` of; the rest is `resetAfter`. See `headgate_say` in `common.lua`. */
const UNITS = 2 ** 20;

/**
 * The answers to the queries of one call: what one fails with does not concern the others. Who asked checks each.
 *
 * @param count policies of the set
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY` if they are not as many as the queries
 */
export function decode(reply: unknown, queries: number, banning: boolean, count: number): (Reply | Error)[] {
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const numbers = reply as number[];
  const step = numbers[0]!;
  const now = Math.floor(step / 1000);
  const answers: (Reply | Error)[] = [];
  let at = 1;
  for (let i = 0; i < queries; i++) {
    const first: unknown = reply[at];
    if (typeof first === 'string') {
      answers.push(new HeadgateError('HEADGATE_STORE_ERROR', first));
      at++;
      continue;
    }
    const ban = banning ? numbers[at++]! : 0;
    if (ban > 0) {
      answers.push({ now, step, ban, verdicts: [] });
    } else if (count === 1 && isPacked(numbers[at])) {
      // Most replies are this: an array of just the room it needs.
      answers.push({ now, step, ban, verdicts: unpacked(numbers[at++]!) });
    } else {
      const verdicts: number[] = [];
      for (let n = 0; n < count; n++) at = read(numbers, at, verdicts);
      answers.push({ now, step, ban, verdicts });
    }
  }
  if (at !== reply.length) throw malformedReply(reply);
  return answers;
}

/**
 * What was charged or given back, of a call of `adjust.lua`.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY`
 */
export function decodeChange(reply: unknown, count: number): ChangeReply {
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const numbers = reply as number[];
  const step = numbers[0]!;
  const charged: number[] = [];
  const verdicts: number[] = [];
  let at = 1;
  for (let n = 0; n < count; n++) {
    charged.push(numbers[at]!);
    at = read(numbers, at + 1, verdicts);
  }
  if (at !== reply.length) throw malformedReply(reply);
  return { now: Math.floor(step / 1000), step, ban: 0, verdicts, charged };
}

function isPacked(number: unknown): boolean {
  return typeof number === 'number' && number >= 0;
}

/** The verdict of one number: an admission. */
function unpacked(packed: number): number[] {
  const reset = Math.floor(packed / UNITS);
  return soleVerdict(0, packed - reset * UNITS, reset);
}

/** Reads one verdict, and returns where the next one is. */
function read(numbers: readonly number[], at: number, verdicts: number[]): number {
  if (isPacked(numbers[at])) {
    verdicts.push(...unpacked(numbers[at]!));
    return at + 1;
  }
  if (numbers[at] !== -1) throw malformedReply(numbers);
  addVerdict(verdicts, numbers[at + 1]!, numbers[at + 2]!, numbers[at + 3]!);
  return at + 4;
}
