import { algorithms, type Params, type Kernel } from './algorithms/index.js';
import { toMilliseconds, type Duration } from './duration.js';
import { invalidOption } from './errors.js';
import { checkBoolean, checkChoice, checkInteger, checkShape, MAX_UNITS } from './validate.js';

interface PolicyBase {
  /** Unique in its limiter: 1 to 64 printable ASCII characters (RFC 9651 string). Default: `'default'` for a sole policy. */
  name?: string;
  /** Units per window: a whole number of at least 1. */
  limit: number;
  /** Evaluate and report, never deny. Default `false`. */
  shadow?: boolean;
}

interface QuotaBase extends PolicyBase {
  /**
   * What is charged. `'admitted'` (default): requests that all policies admit. `'attempts'`: also requests that another policy denies, of
   * this limiter or of one that is stacked behind it. What this policy itself denies is never charged to it.
   */
  count?: 'admitted' | 'attempts';
}

/** At most `limit` units in a window that starts at a key's first request. Worst case in any window: 2 x limit. */
export interface FixedWindowPolicy extends QuotaBase {
  algorithm: 'fixed-window';
  window: Duration;
}

/** The default: at most `limit` units in any window, in constant space, by counting `segments` sub-windows. */
export interface SlidingWindowPolicy extends QuotaBase {
  algorithm?: 'sliding-window';
  window: Duration;
  /** Sub-windows: 1 to 100, default 10. More frees units sooner (a unit is held at most window/segments too long). */
  segments?: number;
}

/** At most `limit` units in any window, exactly, by remembering each admission (8 bytes for those of one millisecond). `limit` up to 1,000,000. */
export interface SlidingLogPolicy extends QuotaBase {
  algorithm: 'sliding-log';
  window: Duration;
}

/** The GCRA kernel under its common names: `limit` per `window`, spread evenly, with `burst` at once. */
export interface TokenBucketPolicy extends QuotaBase {
  algorithm: 'token-bucket' | 'gcra';
  window: Duration;
  /** The most units that can be spent at once. Default `limit`. redis-cell calls it `max_burst + 1`. */
  burst?: number;
}

/** A leaky bucket: as a meter it is the token bucket; with `maxDelay` it holds requests for their turn. */
export interface LeakyBucketPolicy extends QuotaBase {
  algorithm: 'leaky-bucket';
  window: Duration;
  /** The most units that can be spent at once. Default `limit`. */
  burst?: number;
  /** Hold a request up to this long for its turn instead of denying it. Default 0: a meter. */
  maxDelay?: Duration;
}

/** At most `limit` units at a time, each held until it is released or its lease ends. `limit` up to 100,000. */
export interface ConcurrencyPolicy extends PolicyBase {
  algorithm: 'concurrency';
  /** A slot that is not given back is free again after this long. */
  lease: Duration;
}

/** One named quota: plain data, so that it can come from JSON. */
export type Policy =
  | FixedWindowPolicy
  | SlidingWindowPolicy
  | SlidingLogPolicy
  | TokenBucketPolicy
  | LeakyBucketPolicy
  | ConcurrencyPolicy;

export type Algorithm = NonNullable<Policy['algorithm']>;

/** A validated policy, divided and rounded once, so that memory and Redis receive the same integers. */
export interface CompiledPolicy {
  readonly name: string;
  readonly algorithm: Algorithm;
  readonly limit: number;
  /** The window, or a concurrency policy's lease, in milliseconds. */
  readonly window: number;
  readonly shadow: boolean;
  /** Whether it is also charged for what another policy denies. */
  readonly attempts: boolean;
  /** Which of the algorithms' pages evaluates it. */
  readonly kernel: Kernel;
  /** The kernel's integers, in the order in which its Lua page reads them. */
  readonly params: Params;
  /**
   * Tells the state of this policy from all others under one key: the layout's tag, the state's shape (a window's length, a bucket's
   * rate and burst), the name. The limit of a count is not in it: that may change live.
   */
  readonly id: string;
  /** How long a charge counts at most, ms. */
  readonly life: number;
  /** What it was compiled from. */
  readonly source: Policy;
}

const WINDOWED = ['name', 'algorithm', 'limit', 'window', 'shadow', 'count'];
const BUCKET = [...WINDOWED, 'burst'];

/** Which fields each algorithm takes, and the kernel that evaluates it. */
const KINDS: Readonly<Record<Algorithm, { kernel: Kernel; fields: readonly string[] }>> = {
  'sliding-window': { kernel: 'sliding-window', fields: [...WINDOWED, 'segments'] },
  'fixed-window': { kernel: 'fixed-window', fields: WINDOWED },
  'sliding-log': { kernel: 'sliding-log', fields: WINDOWED },
  'token-bucket': { kernel: 'gcra', fields: BUCKET },
  'leaky-bucket': { kernel: 'gcra', fields: [...BUCKET, 'maxDelay'] },
  gcra: { kernel: 'gcra', fields: BUCKET },
  concurrency: { kernel: 'concurrency', fields: ['name', 'algorithm', 'limit', 'lease', 'shadow'] },
};

export const ALGORITHMS = Object.keys(KINDS) as readonly Algorithm[];

/** Every field that a policy of some algorithm can have; an adapter's inline policy is picked out of its options by these. */
export const POLICY_FIELDS = [...new Set(Object.values(KINDS).flatMap(({ fields }) => fields))];

const NAME = /^[\x20-\x7e]{1,64}$/;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless it can stand in a structured field (RFC 9651, section 3.3.3) */
function checkName(option: string, name: unknown): string {
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw invalidOption(option, name, 'Write 1 to 64 printable ASCII characters.');
  }
  return name;
}

/** Whether a policy counts attempts. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function checkCount(
  what: string,
  { count = 'admitted', maxDelay }: Readonly<Record<string, unknown>>,
): boolean {
  const attempts = checkChoice(`${what}.count`, count, ['admitted', 'attempts']) === 'attempts';
  if (attempts && maxDelay !== undefined) {
    const fix = 'A denied request has no turn to wait for: leave out `maxDelay`, or `count`.';
    throw invalidOption(`${what}.count`, count, fix);
  }
  return attempts;
}

/** Validates and compiles one policy. `what` is where it stands, for messages. */
function compilePolicy(what: string, policy: Policy, fallbackName: string): CompiledPolicy {
  const named = (policy as Partial<Policy> | null)?.algorithm;
  const algorithm =
    named === undefined ? 'sliding-window' : checkChoice(`${what}.algorithm`, named, ALGORITHMS);
  const { kernel, fields } = KINDS[algorithm];
  checkShape(what, policy, fields);
  const given: Readonly<Record<string, unknown>> = { ...policy };
  const limit = checkInteger(`${what}.limit`, given.limit, 1, MAX_UNITS);
  const span = kernel === 'concurrency' ? 'lease' : 'window';
  const window = toMilliseconds(`${what}.${span}`, given[span]);
  const name = policy.name === undefined ? fallbackName : checkName(`${what}.name`, policy.name);
  const definition = algorithms[kernel];
  const { params, shape, life } = definition.compile(what, { ...given, limit, window });
  const layout = `${definition.tag}@${shape}`;
  return Object.freeze({
    name,
    algorithm,
    limit,
    window,
    shadow: checkBoolean(`${what}.shadow`, policy.shadow, false),
    attempts: checkCount(what, given),
    kernel,
    params: Object.freeze(params),
    id: name === 'default' ? layout : `${layout}:${name}`,
    life,
    source: Object.freeze({ ...policy }),
  });
}

/**
 * Validates and compiles the policies of one limiter.
 *
 * @param what where they stand, for messages
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`: what is wrong, what was given, what to write
 */
export function compilePolicies(what: string, policies: readonly Policy[]): readonly CompiledPolicy[] {
  if (!Array.isArray(policies) || policies.length === 0 || policies.length > 32) {
    throw invalidOption(
      what,
      policies,
      'Write an array of 1 to 32 policies: [{ limit: 100, window: "1m" }].',
    );
  }
  const compiled = policies.map((policy: Policy, i) => {
    const single = policies.length === 1;
    return compilePolicy(single ? what : `${what}[${i}]`, policy, single ? 'default' : `policy-${i + 1}`);
  });
  const names = compiled.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined)
    throw invalidOption(`${what}: name`, twice, 'Give each policy of a limiter its own name.');
  // Not frozen: V8 is slow at reading the elements of a frozen array.
  return compiled;
}
