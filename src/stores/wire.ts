import { HeadgateError } from '../errors.js';
import type { CompiledPolicy } from '../policy.js';
import { malformedReply } from './reply.js';
import type { Reply } from './store.js';

/** How many policies, and each of them, as `policies.lua` reads them. */
export function policyArgs(policies: readonly CompiledPolicy[]): string[] {
  return [
    String(policies.length),
    ...policies.flatMap(({ kernel, shadow, params }) => [
      kernel,
      shadow ? '1' : '0',
      ...Object.values(params).map(String),
    ]),
  ];
}

/** A cost, as `evaluate.lua` reads it. */
export function costArg(cost: number, peek: boolean): string {
  return String(peek ? -1 - cost : cost);
}

/**
 * The answers to the queries of one call: what one fails with does not concern the others. Who asked checks each.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY` if they are not as many as the queries
 */
export function decode(
  reply: unknown,
  queries: number,
  banning: boolean,
  verdicts: number,
): (Reply | Error)[] {
  if (!Array.isArray(reply)) throw malformedReply(reply);
  const [now] = reply as number[];
  const answers: (Reply | Error)[] = [];
  let at = 1;
  for (let i = 0; i < queries; i++) {
    const first: unknown = reply[at];
    if (typeof first === 'string') {
      answers.push(new HeadgateError('HEADGATE_STORE_ERROR', first));
      at++;
      continue;
    }
    const ban = banning ? (reply[at++] as number) : 0;
    const end = ban > 0 ? at : at + verdicts;
    answers.push({ now: now!, ban, verdicts: reply.slice(at, end) as number[] });
    at = end;
  }
  if (at !== reply.length) throw malformedReply(reply);
  return answers;
}
