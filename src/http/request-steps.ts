import { checkWeight } from '../features/shares/contract/shares.js';
import { isId } from '../features/ids/id-rules.js';
import type { Cost } from '../contract/costs.js';
import type { RequestFields } from '../contract/features.js';
import type { Key } from '../contract/key.js';
import { isPromise, type MaybePromise, type PolicySet } from '../contract/store.js';
import type { Framework } from './framework.js';
import type { Warn } from '../common/warnings.js';
import { checkClientIp } from './client-key.js';
import type { HeadgateError } from '../common/errors.js';
import { checkGeneratedKey, type CompiledOptions } from './compile-options.js';

/** The facts about a request on its way to a decision. Each step adds its results. */
export interface RequestSoFar<Req> {
  readonly req: Req;
  /** The request's key; later, with several dimensions, all of the request's keys. `undefined` if no policy applies by key. */
  key: Key | undefined;
  /** The list with the request, in which case no policy decides. */
  listed: 'allow-listed' | 'deny-listed' | undefined;
  set: PolicySet | undefined;
  cost: Cost;
  /** The options of features, if the request has any. */
  fields: RequestFields | undefined;
}

/** Returns whether the request continues with the next step. Otherwise the request is on a list, or is not limited. */
export type Step<Req> = (soFar: RequestSoFar<Req>) => MaybePromise<boolean>;

/**
 * Compiles the steps that the options need, in order: skip, client address, key, lists, other keys, policies, cost, id. The result of a
 * user's function may be a promise.
 *
 * @param framework returns the client's address, and the kind of a message
 * @param noteClient receives the result of the option `clientIp`
 */
export function compileSteps<Req extends object, Res>(
  options: CompiledOptions<Req, Res>,
  { ip: ipOf, messageKind }: Pick<Framework<Req, Res>, 'ip' | 'messageKind'>,
  noteClient: (req: Req, ip: string | undefined) => void,
): readonly Step<Req>[] {
  const {
    skip,
    clientIp,
    keyGenerator,
    needsKey,
    clientKey,
    denyList,
    allowList,
    keysOf,
    setOf,
    costOf,
    requestId,
    weight,
  } = options;
  const steps: Step<Req>[] = [];
  const ofClient = (step: Step<Req>): Step<Req> =>
    messageKind ? passMessages(step, messageKind, options.warn) : step;
  if (skip) steps.push(({ req }) => found(skip(req), (skipped) => !skipped));
  if (clientIp) steps.push(({ req }) => found(clientIp(req), (ip) => noteClient(req, checkClientIp(ip))));
  if (keyGenerator) {
    steps.push(
      ofClient((soFar) =>
        found(keyGenerator(soFar.req), (made) => {
          checkGeneratedKey(made);
          soFar.key = made;
        }),
      ),
    );
  } else if (needsKey) {
    steps.push(
      ofClient((soFar) => {
        soFar.key = clientKey(ipOf(soFar.req));
        return true;
      }),
    );
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
  // Policies and cost are not computed for a request without a key, which is not limited.
  if (setOf)
    steps.push((soFar) => hasNoKey(soFar) || found(setOf(soFar.req), (set) => void (soFar.set = set)));
  if (costOf)
    steps.push((soFar) => hasNoKey(soFar) || found(costOf(soFar.req), (cost) => void (soFar.cost = cost)));
  if (requestId)
    steps.push(
      // A client may have chosen the id, and must not cause an error by it.
      (soFar) =>
        hasNoKey(soFar) ||
        found(requestId(soFar.req), (id) => {
          if (isId(id)) soFar.fields = { ...soFar.fields, id };
        }),
    );
  if (weight !== undefined)
    steps.push((soFar) => {
      const made = typeof weight === 'function' ? hasNoKey(soFar) || weight(soFar.req) : weight;
      return found(made, (units) => {
        if (units !== true) soFar.fields = { ...soFar.fields, weight: checkWeight('weight', units) };
      });
    });
  return steps;
}

/** Lets messages without a client's address continue without a key, and warns of the first. */
function passMessages<Req>(step: Step<Req>, kindOf: (req: Req) => string | undefined, warn: Warn): Step<Req> {
  const pass = ({ req }: RequestSoFar<Req>, error: unknown): true => {
    const kind = kindOf(req);
    if (kind === undefined || (error as HeadgateError).code !== 'HEADGATE_NO_CLIENT_IP') throw error;
    warn('HEADGATE_MESSAGE_UNLIMITED', unlimited(kind));
    return true;
  };
  return (soFar) => {
    try {
      const goesOn = step(soFar);
      return isPromise(goesOn) ? goesOn.catch((error: unknown) => pass(soFar, error)) : goesOn;
    } catch (error) {
      return pass(soFar, error);
    }
  };
}

const unlimited = (kind: string): string =>
  `A message of type '${kind}' was not limited, because it has no client with an address. To limit such messages, return a key from ` +
  "`keyGenerator`. Otherwise exempt them with skip: (context) => context.getType() !== 'http', which also ends this warning.";

function hasNoKey({ key }: Pick<RequestSoFar<never>, 'key'>): boolean {
  return key === undefined;
}

/** Applies the result of a user's function, sync or async. @param use returns false if the request does not continue */
function found<T>(value: MaybePromise<T>, use: (value: T) => boolean | void): MaybePromise<boolean> {
  return isPromise(value) ? value.then((later) => use(later) !== false) : use(value) !== false;
}
