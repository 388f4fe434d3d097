import type { Cost } from '../contract/costs.js';
import type { Key } from '../contract/key.js';
import { isPromise, type MaybePromise, type PolicySet } from '../contract/store.js';
import { checkGeneratedKey, type CompiledOptions } from './compile-options.js';

/** What is known of a request on its way to a decision. Each step adds what it has found out. */
export interface Asked<Req> {
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
export type Step<Req> = (asked: Asked<Req>) => MaybePromise<boolean>;

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
  if (clientIp) {
    steps.push(({ req }) =>
      found(clientIp(req), (ip) => {
        noteClient(req, ip);
        return true;
      }),
    );
  }
  if (key) {
    steps.push((asked) =>
      found(key(asked.req), (made) => {
        checkGeneratedKey(made);
        asked.key = made;
        return true;
      }),
    );
  } else if (needsKey) {
    steps.push((asked) => {
      asked.key = clientKey(ipOf(asked.req));
      return true;
    });
  }
  for (const [list, name] of [
    [denyList, 'deny-listed'],
    [allowList, 'allow-listed'],
  ] as const) {
    if (!list) continue;
    steps.push((asked) =>
      found(list(asked.req, ipOf(asked.req), asked.key as string | undefined), (isOn) => {
        if (isOn) asked.listed = name;
        return !isOn;
      }),
    );
  }
  if (keysOf) {
    steps.push((asked) =>
      found(keysOf(asked.req, asked.key as string | undefined), (keys) => {
        asked.key = keys;
        return true;
      }),
    );
  }
  if (setOf) {
    steps.push((asked) => {
      if (asked.key === undefined) return true;
      return found(setOf(asked.req), (set) => {
        asked.set = set;
        return true;
      });
    });
  }
  if (costOf) {
    steps.push((asked) => {
      if (asked.key === undefined) return true;
      return found(costOf(asked.req), (cost) => {
        asked.cost = cost;
        return true;
      });
    });
  }
  return steps;
}

/** Goes on with what a function of the user has returned, at once or later. */
function found<T>(value: MaybePromise<T>, goOn: (value: T) => boolean): MaybePromise<boolean> {
  return isPromise(value) ? value.then(goOn) : goOn(value);
}
