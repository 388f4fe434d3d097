import { checkDimension, DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import { unknownDimension } from '../contract/dimensions.js';
import { plainDimensions } from '../features/shares/contract/shares.js';
import { HeadgateError, invalidOption, showOption } from '../common/errors.js';
import { isPromise, type MaybePromise, type PolicySet } from '../contract/store.js';
import { checkFunction } from '../common/validate.js';

/**
 * A function per dimension that returns the request's key, sync or async, or `undefined` if policies by the dimension do not apply to the
 * request.
 */
export type KeysOption<Req> = Readonly<
  Record<string, { call(request: Req): MaybePromise<string | undefined> }['call']>
> & {
  /** Not allowed: the option `keyGenerator` returns the request's own key. */
  readonly [DEFAULT_DIMENSION]?: undefined;
};

/** Returns the keys of a request, including the default dimension's, or `undefined` if the request has no keys. */
export type KeysOf<Req> = (request: Req, key: string | undefined) => MaybePromise<Key | undefined>;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function compileKeys(option: string, keys: unknown): KeysOf<unknown> {
  const given = Object.entries(keys !== null && typeof keys === 'object' && !Array.isArray(keys) ? keys : {});
  if (given.length === 0) {
    const fix = 'Pass a function for each dimension: { account: (req) => req.user?.id }.';
    throw invalidOption(option, keys, fix);
  }
  const each = given.map(([dimension, value]) => {
    const keyOf = value as ((request: unknown) => MaybePromise<string | undefined>) | undefined;
    const what = `${option}.${checkDimension(option, dimension)}`;
    if (dimension === DEFAULT_DIMENSION)
      throw invalidOption(what, keyOf, 'Pass it as the option keyGenerator.');
    if (keyOf === undefined) throw invalidOption(what, keyOf, 'Pass a function.');
    return { dimension, what, keyOf: checkFunction(what, keyOf) };
  });
  return (request, key) => {
    const made: Record<string, string | undefined> = { [DEFAULT_DIMENSION]: key };
    const later: Promise<void>[] = [];
    try {
      for (const { dimension, what, keyOf } of each) {
        const value = ask(what, () => keyOf(request));
        if (isPromise(value)) later.push(value.then((its) => void (made[dimension] = its)));
        else made[dimension] = value;
      }
    } catch (error) {
      // Other promises may still reject after the caller has received the first error.
      void Promise.allSettled(later);
      throw error;
    }
    return later.length === 0 ? someOf(made) : Promise.all(later).then(() => someOf(made));
  };
}

function ask(what: string, keyOf: () => MaybePromise<string | undefined>): MaybePromise<string | undefined> {
  let value: MaybePromise<string | undefined>;
  try {
    value = keyOf();
  } catch (error) {
    throw threw(what, error);
  }
  return isPromise(value) ? awaited(what, value) : checked(what, value);
}

async function awaited(what: string, value: Promise<string | undefined>): Promise<string | undefined> {
  let its: string | undefined;
  try {
    its = await value;
  } catch (error) {
    throw threw(what, error);
  }
  return checked(what, its);
}

function checked(what: string, key: unknown): string | undefined {
  if (key === undefined || typeof key === 'string') return key;
  throw new HeadgateError(
    'HEADGATE_INVALID_KEY',
    `${what}: ${showOption(what, key)} is not a key. Return a string, or undefined if policies by this dimension do not apply to the request.`,
  );
}

function threw(what: string, cause: unknown): HeadgateError {
  const fix = 'Return undefined for a request without a key of this dimension.';
  return new HeadgateError('HEADGATE_INVALID_KEY', `${what} threw: ${String(cause)}. ${fix}`, { cause });
}

/** The keys, or `undefined` if the request has no keys and is therefore not limited. */
function someOf(keys: Readonly<Record<string, string | undefined>>): Key | undefined {
  return Object.values(keys).some((key) => key !== undefined) ? keys : undefined;
}

/**
 * Checks that there is a function for each dimension of the sets that may decide. Except for a plugin's or module's defaults, each function
 * also needs a policy by its dimension.
 *
 * @throws HeadgateError `HEADGATE_UNKNOWN_DIMENSION`
 */
export function checkKeysOf(
  sets: readonly PolicySet[],
  keys: KeysOption<never> | undefined,
  areDefaults: boolean,
): void {
  const names = plainDimensions(sets.flatMap(({ dimensions }) => dimensions?.names ?? []));
  const made = [DEFAULT_DIMENSION, ...Object.keys(keys ?? {})];
  const missing = names.find((name) => !made.includes(name));
  if (missing !== undefined) {
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_DIMENSION',
      `keys: policies are by '${missing}', and requests have no such key. Add keys: { ${missing}: (req) => ... }.`,
    );
  }
  const extra = made.find((name) => name !== DEFAULT_DIMENSION && !names.includes(name));
  if (extra !== undefined && !areDefaults) throw unknownDimension(`keys.${extra}`, extra, names);
}
