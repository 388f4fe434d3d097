import type { Cost } from '../contract/costs.js';
import type { Key } from '../contract/key.js';
import { isPromise, type MaybePromise, type PolicySet } from '../contract/store.js';
import { checkClientIp } from './client-key.js';
import { checkGeneratedKey, type CompiledOptions } from './compile-options.js';

/** What is known of a request on its way to a decision. Each step adds what it has found out. */
export interface RequestSoFar<Req> {
  readonly req: Req;
  /** The request's key; then, with several dimensions, all of its keys. Undefined: no policy is by it. */
  key: Key | undefined;
  /** Which list the request is on: then no policy decides. */
  listed: 'allow-listed' | 'deny-listed' | undefined;
  /** The policies to decide by. */
  set: PolicySet | undefined;
  cost: Cost;
}

/** Returns whether the request goes on to the next step. If not, it is on a list, or it is not limited. */
export type Step<Req> = (soFar: RequestSoFar<Req>) => MaybePromise<boolean>;

/**
 * The steps that the options ask for, in their order: whether to skip the request, who the client is, the key, the lists, the other keys, the
 * policies, the cost. What a user's function returns may be a promise.
 *
 * @param ipOf the client's address @param noteClient receives what the option `clientIp` has returned
 */
export function compileSteps<Req extends object, Res>(
  options: CompiledOptions<Req, Res>,
  ipOf: (req: Req) => string | undefined,
  noteClient: (req: Req, ip: string | undefined) => void,
): readonly Step<Req>[] {
  const { skip, clientIp, key, needsKey, clientKey, denyList, allowList, keysOf, setOf, costOf } = options;
  const steps: Step<Req>[] = [];
  if (skip) steps.push(({ req }) => found(skip(req), (skipped) => !skipped));
  if (clientIp) steps.push(({ req }) => found(clientIp(req), (ip) => noteClient(req, checkClientIp(ip))));
  if (key) {
    steps.push((soFar) =>
      found(key(soFar.req), (made) => {
        checkGeneratedKey(made);
        soFar.key = made;
      }),
    );
  } else if (needsKey) {
    steps.push((soFar) => {
      soFar.key = clientKey(ipOf(soFar.req));
      return true;
    });
  }
  for (const [list, name] of [
    [denyList, 'deny-listed'],
    [allowList, 'allow-listed'],
  ] as const) {
    if (!list) continue;
    steps.push((soFar) =>
      found(list(soFar.req, ipOf(soFar.req), soFar.key as string | undefined), (isOn) => {
        if (isOn) soFar.listed = name;
        return !isOn;
      }),
    );
  }
  if (keysOf) {
    steps.push((soFar) =>
      found(keysOf(soFar.req, soFar.key as string | undefined), (keys) => void (soFar.key = keys)),
    );
  }
  // Neither is asked about a request without a key, which is not limited.
  if (setOf)
    steps.push((soFar) => hasNoKey(soFar) || found(setOf(soFar.req), (set) => void (soFar.set = set)));
  if (costOf)
    steps.push((soFar) => hasNoKey(soFar) || found(costOf(soFar.req), (cost) => void (soFar.cost = cost)));
  return steps;
}

function hasNoKey({ key }: Pick<RequestSoFar<never>, 'key'>): boolean {
  return key === undefined;
}

/** Uses what a function of the user has returned, at once or later. @param use returns false if the request does not go on */
function found<T>(value: MaybePromise<T>, use: (value: T) => boolean | void): MaybePromise<boolean> {
  return isPromise(value) ? value.then((later) => use(later) !== false) : use(value) !== false;
}
