import { DOCS, HeadgateError, invalidOption, show } from './errors.js';
import { printable } from './printable.js';

/** Options of other rate limiters, each with Headgate's names. The suggestion is the first name that the object accepts. */
const ALIASES = new Map(
  Object.entries({
    windowMs: ['window'],
    timeWindow: ['window'],
    duration: ['window', 'for'],
    interval: ['window', 'within'],
    period: ['window', 'within'],
    ttl: ['window', 'lease'],
    leaseMs: ['lease'],
    max: ['limit', 'after'],
    points: ['limit'],
    hits: ['limit'],
    requests: ['limit'],
    tokens: ['limit'],
    tokensPerInterval: ['limit'],
    maxConcurrent: ["algorithm: 'concurrency'", 'limit'],
    concurrency: ["algorithm: 'concurrency'"],
    capacity: ['burst'],
    bucketSize: ['burst'],
    maxBurst: ['burst'],
    max_burst: ['burst'],
    type: ['algorithm'],
    strategy: ['algorithm'],
    rules: ['policies'],
    limits: ['policies', 'limit'],
    throttlers: ['policies'],
    keyPrefix: ['prefix', 'name'],
    nameSpace: ['prefix', 'name'],
    namespace: ['prefix', 'name'],
    groupId: ['name'],
    keyGenerator: ['key'],
    key: ['keyGenerator'],
    weight: ['cost'],
    rate: ['cost', 'limit'],
    message: ['handler'],
    onLimitReached: ['handler', 'onDecision'],
    onExceeded: ['onDecision'],
    errorResponseBuilder: ['handler'],
    standardHeaders: ['headers'],
    legacyHeaders: ["headers: ['legacy']"],
    addHeaders: ['headers'],
    whitelist: ['allowList'],
    blacklist: ['denyList'],
    dryRun: ['shadow'],
    blockDuration: ['ban: { for }', 'for'],
    inMemoryBlockOnConsumed: ['ban'],
    insuranceLimiter: ["onStoreError: 'local'"],
    failOpen: ["onStoreError: 'allow'"],
    failClosed: ["onStoreError: 'deny'"],
    passOnStoreError: ["onStoreError: 'allow'"],
    skipOnError: ["onStoreError: 'allow'"],
    redis: ['store: redisStore(redis)'],
    client: ['store: redisStore(client)'],
    storeClient: ['store: redisStore(client)'],
    maxSize: ['maxKeys'],
    cache: ['maxKeys'],
    now: ['clock', 'store: memoryStore({ clock })'],
    clock: ['store: memoryStore({ clock })'],
  }),
);

/** The edit distance between two words, which finds the option that a misspelt name was meant to be. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min(change, row[j]! + 1, next[j - 1]! + 1);
    }
    row = next;
  }
  return row[b.length]!;
}

/** Whether the object creates a limiter. A message cannot list the options of limiters, because there are more than 40. */
function isLimiter(known: readonly string[]): boolean {
  return known.includes('limit') && known.includes('store');
}

/**
 * Refuses values that are not objects, and unknown properties.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` (not an object), `HEADGATE_UNKNOWN_OPTION` (suggests the right name)
 */
export function checkShape(what: string, value: unknown, known: readonly string[]): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const fix = isLimiter(known)
      ? "Pass an object, such as { limit: 100, window: '1m' }, or the text '100/1m'."
      : `Pass an object with: ${known.join(', ')}.`;
    throw invalidOption(what, value, fix);
  }
  for (const name of Object.keys(value)) {
    if (known.includes(name)) continue;
    const alias = ALIASES.get(name)?.find((word) => known.includes(word.split(':')[0]!));
    const near = known.find(
      (word) => distance(word.toLowerCase(), name.toLowerCase()) <= Math.min(2, name.length / 2.5),
    );
    const hint = alias
      ? `Headgate calls it \`${alias}\`.`
      : near
        ? `Did you mean \`${near}\`?`
        : isLimiter(known)
          ? `All options: ${DOCS}/options.md.`
          : `The known names are: ${known.join(', ')}.`;
    throw new HeadgateError('HEADGATE_UNKNOWN_OPTION', `${what}: '${printable(name)}' is unknown. ${hint}`);
  }
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless `value` is a whole number from `least` to `most` */
export function checkInteger(option: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) {
    throw invalidOption(option, value, `Pass a whole number from ${least} to ${most}.`);
  }
  return value;
}

/**
 * @param isOpen whether `least` itself is excluded
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` unless `value` is a number from `least` to `most`
 */
export function checkNumber(
  option: string,
  value: unknown,
  [least, most]: readonly [least: number, most: number],
  isOpen = false,
): number {
  if (typeof value === 'number' && (isOpen ? value > least : value >= least) && value <= most) return value;
  throw invalidOption(option, value, `Pass a number ${isOpen ? 'above' : 'from'} ${least} to ${most}.`);
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless `value` is one of `choices` */
export function checkChoice<T extends string>(option: string, value: unknown, choices: readonly T[]): T {
  if (!choices.includes(value as T)) {
    throw invalidOption(option, value, `Use one of: ${choices.map((choice) => `'${choice}'`).join(', ')}.`);
  }
  return value as T;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless `value` is a boolean or absent */
export function checkBoolean(option: string, value: unknown, otherwise: boolean): boolean {
  if (value === undefined) return otherwise;
  if (typeof value !== 'boolean') throw invalidOption(option, value, 'Pass true or false.');
  return value;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless `value` is a function or absent */
export function checkFunction<T>(option: string, value: T): T {
  if (value !== undefined && typeof value !== 'function')
    throw invalidOption(option, value, 'Pass a function.');
  return value;
}

const STORE_METHODS = ['decide', 'adjust', 'lease', 'reset', 'ban'];

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless `store` has the methods of a store */
export function checkStore<T>(store: T): T {
  const given = Object(store) as Record<string, unknown>;
  if (STORE_METHODS.every((method) => typeof given[method] === 'function')) return store;
  throw invalidOption(
    'store',
    store,
    `Pass memoryStore(), redisStore(client), or an object with the methods of a store: ${STORE_METHODS.join(', ')}.`,
  );
}

/** The largest limit, burst and cost. */
export const MAX_UNITS = 1e12;

/** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` unless it is an AbortSignal or absent */
export function checkSignal(signal: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new HeadgateError(
      'HEADGATE_INVALID_ARGUMENT',
      `signal: ${show(signal)} is not valid. Pass an AbortSignal.`,
    );
  }
}
