import type { Decision } from '../common/decision.js';
import { HeadgateError, show } from '../common/errors.js';
import { clientKeyOf } from './client-key.js';
import {
  compileHeaders,
  writeDenialFields,
  type HeaderDialect,
  type HeaderTarget,
  type WriteHeaders,
} from './quota-fields.js';
import { REQUEST_TABLE } from './options.js';
import { PROBLEM_TYPE, problemOf, statusOf } from './problem.js';
import { ofLimiter, type LimiterDecision } from '../limiter/decision.js';
import type { PolicySet } from '../contract/store.js';

export { createFlow, type Flow } from './flow.js';
export type { Framework, Next, Outcome, Proxies, ResponsePort, Trail, Trails } from './framework.js';
export type { HeaderDialect, HeaderTarget } from './quota-fields.js';
export { nodeResponse } from './node-response.js';
export { WebReply, webResponse } from './web-response.js';
export type { ListOption } from './lists.js';
export type {
  GivenLimiter,
  HttpOptions,
  InlineQuota,
  NoQuota,
  PoliciesOf,
  RequestOptions,
  RequestPolicies,
} from './options.js';

type Fields = Record<string, string>;

const fieldsTarget: HeaderTarget<Fields> = {
  getHeader: (fields, name) => fields[name],
  setHeader: (fields, name, value) => void (fields[name] = value),
};

/** Header writers by the requested dialects. The key of a list is its content. */
const writers = new Map<unknown, WriteHeaders>();

function writerOf(dialects: HeaderDialect | readonly HeaderDialect[] | false | undefined): WriteHeaders {
  const isList = Array.isArray(dialects) && dialects.every((dialect) => typeof dialect === 'string');
  const id = isList ? JSON.stringify(dialects) : dialects;
  let write = writers.get(id);
  if (!write) writers.set(id, (write = compileHeaders(dialects)));
  return write;
}

/** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
function checkDecision(decision: Decision): LimiterDecision {
  const own = ofLimiter(decision);
  if (Array.isArray(setOf(own)?.policies)) return own;
  throw new HeadgateError(
    'HEADGATE_INVALID_ARGUMENT',
    `decision: ${show(decision)} is not valid. Pass the result of \`await limiter.consume(key)\` itself, not a copy.`,
  );
}

/** The policy set of a decision, or `undefined` if the value is not a decision. */
function setOf(decision: Partial<LimiterDecision> | null | undefined): PolicySet | undefined {
  try {
    return decision?.set;
  } catch {
    return undefined;
  }
}

/**
 * Returns the header fields that show the quota, for a framework without an adapter. `Retry-After` is not included: see {@link denial}.
 * Neither is the parameter `pk` of the adapters' option `partitionKey`.
 *
 * @param dialects as the adapters' option `headers`; default `['draft-6', 'draft-11']`
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_INVALID_ARGUMENT`
 */
export function rateLimitHeaders(
  decision: Decision,
  dialects?: HeaderDialect | readonly HeaderDialect[] | false,
): Record<string, string> {
  const own = checkDecision(decision);
  const write = writerOf(dialects);
  const fields: Fields = {};
  write(fieldsTarget, fields, own, false);
  return fields;
}

/** An HTTP answer for any framework. */
export interface Answer {
  /** 429, 503 or 403. */
  status: number;
  /** The fields, by name. */
  headers: Record<string, string>;
  /** Problem details (RFC 9457): JSON, in ASCII. */
  body: string;
}

/**
 * Returns the answer to a denied request, for a framework without an adapter. The status is 429, or 503 if the store is the reason, or 403
 * for a deny list. The answer has the quota's fields, problem details, and `Retry-After` if waiting helps. Waiting does not help against a
 * deny list, or for a cost that can never be admitted.
 *
 * @param dialects as for {@link rateLimitHeaders}
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_INVALID_ARGUMENT`
 */
export function denial(
  decision: Decision,
  dialects?: HeaderDialect | readonly HeaderDialect[] | false,
): Answer {
  const headers = rateLimitHeaders(decision, dialects);
  const own = ofLimiter(decision);
  const status = statusOf(own, REQUEST_TABLE.statusCode.read('statusCode', undefined));
  writeDenialFields(fieldsTarget, headers, own);
  headers['Content-Type'] = PROBLEM_TYPE;
  return { status, headers, body: problemOf(own, status) };
}

/**
 * Returns the adapters' default key: a client's address in canonical form, or the address' network for IPv6.
 *
 * @param ip the address by the framework's settings; an address from a proxy only if the proxy is trusted
 * @param ipv6Subnet the prefix length, 1 to 128: IPv6 addresses with the same prefix count as one client. Default 56
 * @throws HeadgateError `HEADGATE_NO_CLIENT_IP`, `HEADGATE_INVALID_OPTION`
 */
export function clientKey(ip: string | undefined, ipv6Subnet?: number): string {
  return clientKeyOf(ip, REQUEST_TABLE.ipv6Subnet.read('ipv6Subnet', ipv6Subnet));
}
