import {
  algorithms,
  DEFAULT_ALGORITHM,
  POLICY_TABLE,
  traitsOf,
  type Algorithm,
  type Kernel,
  type Policy,
} from '../algorithms/index.js';
import { NAME, NAME_RANGE, UNLIMITED_FIX } from '../algorithms/fields.js';
import { checkDimension, DEFAULT_DIMENSION } from './key.js';
import { HeadgateError, invalidOption } from '../common/errors.js';
import {
  checkSlotTenants,
  shareOf,
  visiblePolicies,
  withHidden,
} from '../features/shares/contract/shares.js';
import { refusal } from './together.js';
import { canonicalText, parsePolicy as parse } from './policy-text.js';
import { checkChoice, checkShape } from '../common/validate.js';
import type { CompiledPolicy, Policies } from './policy.js';

/** The fields of all policies. Each algorithm adds its own. */
const COMMON = ['name', 'algorithm', 'shadow', 'limit', 'by', 'thresholds'];

/** The kernel of each algorithm name, and the fields that its policies can have. */
const KINDS = new Map<string, { kernel: Kernel; fields: readonly string[] }>();
for (const kernel of Object.keys(algorithms) as Kernel[]) {
  const { names } = algorithms[kernel];
  const common = traitsOf(kernel).holdsSlots ? COMMON : [...COMMON, 'count', 'unit'];
  for (const [name, own] of Object.entries(names)) KINDS.set(name, { kernel, fields: [...common, ...own] });
}

export const ALGORITHMS = [...KINDS.keys()] as readonly Algorithm[];

/** Whether the charges of an algorithm's policies drain: see `Traits`. */
export const drains = (algorithm: string): boolean => traitsOf(KINDS.get(algorithm)!.kernel).drains;

/** Whether a policy with the algorithm counts slots, which are returned, instead of units. @param algorithm its name */
export const countsSlots = (algorithm: string): boolean => traitsOf(KINDS.get(algorithm)!.kernel).holdsSlots;

/** The fields of policies of all algorithms. Adapters use this list to find an inline policy in their options. */
export const POLICY_FIELDS = [...new Set([...KINDS.values()].flatMap(({ fields }) => fields))];

export const algorithmsWith = (field: string): Algorithm[] =>
  ALGORITHMS.filter((name) => KINDS.get(name)!.fields.includes(field));

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless the name is valid */
function checkName(option: string, name: unknown): string {
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw invalidOption(option, name, `Use ${NAME_RANGE}.`);
  }
  return name;
}

/** Whether a policy counts attempts. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function checkCount(what: string, count: unknown, paces: boolean): boolean {
  const attempts = POLICY_TABLE.count.read(`${what}.count`, count) === 'attempts';
  if (attempts && paces) throw refusal('pacedAttempts', `${what}.count`, count);
  return attempts;
}

const WHY_SEGMENTS =
  'Shares follow from the units that tenants asked for in each segment of a window; a bucket or a counter has no segments.';

/** Refuses a field of another algorithm. @throws HeadgateError `HEADGATE_UNKNOWN_OPTION` */
function checkFields(what: string, policy: object, algorithm: Algorithm, fields: readonly string[]): void {
  for (const field of Object.keys(Object(policy) as object)) {
    if (fields.includes(field) || !POLICY_FIELDS.includes(field)) continue;
    const having = algorithmsWith(field);
    if (field === 'window' && KINDS.get(algorithm)?.fields.includes('lease')) {
      const fix = 'Use lease, the time after which a slot that is not given back is free again.';
      throw new HeadgateError(
        'HEADGATE_UNKNOWN_OPTION',
        `${what}: the algorithm ${algorithm} has no '${field}'. ${fix}`,
      );
    }
    const reason = field === 'share' ? ` ${WHY_SEGMENTS}` : '';
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_OPTION',
      `${what}: '${field}' is not a field of the algorithm ${algorithm}, but of ${having.join(', ')}.${reason} Use ` +
        `algorithm: '${having[0]}', or omit ${field}.`,
    );
  }
}

/** Validates and compiles one policy. @param what its place in the options, for messages */
function compilePolicy(what: string, given: Policy | string, fallbackName: string): CompiledPolicy {
  if (typeof given !== 'string') return compileFields(what, given, fallbackName);
  const { policy, explain } = parse(what, given, KINDS);
  try {
    return compileFields(what, policy, fallbackName);
  } catch (error) {
    throw explain(error);
  }
}

/** A policy's unit, or an empty object for the default. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function unitOf(what: string, policy: Policy): { unit?: string } {
  const unit = POLICY_TABLE.unit.read(`${what}.unit`, 'unit' in policy ? policy.unit : undefined);
  return unit === POLICY_TABLE.unit.default ? {} : { unit };
}

/** The policy without undefined fields, which every algorithm treats as absent. */
function definedFields(policy: Policy): Policy {
  const given = Object.entries(Object(policy) as object);
  const isLeftOut = ([field, value]: [string, unknown]) =>
    value === undefined && POLICY_FIELDS.includes(field);
  if (!given.some(isLeftOut)) return policy;
  return Object.fromEntries(given.filter((each) => !isLeftOut(each))) as unknown as Policy;
}

function compileFields(what: string, written: Policy, fallbackName: string): CompiledPolicy {
  const policy = definedFields(written);
  const named = (policy as Partial<Policy> | null)?.algorithm;
  if ((named as unknown) === 'unlimited') throw invalidOption(`${what}.algorithm`, named, UNLIMITED_FIX);
  const algorithm =
    named === undefined ? DEFAULT_ALGORITHM : checkChoice(`${what}.algorithm`, named, ALGORITHMS);
  const { kernel, fields } = KINDS.get(algorithm)!;
  checkFields(what, policy, algorithm, fields);
  checkShape(what, policy, fields);
  const limit = POLICY_TABLE.limit.read(`${what}.limit`, policy.limit);
  const name = policy.name === undefined ? fallbackName : checkName(`${what}.name`, policy.name);
  const definition = algorithms[kernel];
  const { params, sent, window, shape, life, traits } = definition.compile(what, { ...policy, limit });
  const layout = `${definition.tag}@${shape}`;
  const by = policy.by === undefined ? DEFAULT_DIMENSION : checkDimension(`${what}.by`, policy.by);
  const share = shareOf(what, policy, by);
  return Object.freeze({
    name,
    algorithm,
    limit,
    window,
    shadow: POLICY_TABLE.shadow.read(`${what}.shadow`, policy.shadow),
    attempts: checkCount(what, 'count' in policy ? policy.count : undefined, traits.paceMs !== undefined),
    by,
    share,
    thresholds: POLICY_TABLE.thresholds.read(`${what}.thresholds`, policy.thresholds),
    traits: Object.freeze({
      ...traitsOf(kernel),
      ...traits,
      // The share of a tenant depends on the others, so units cannot be charged ahead, nor predicted.
      ...(share !== undefined && { slices: undefined, nextUnitMs: undefined }),
      ...unitOf(what, policy),
    }),
    kernel,
    params: Object.freeze(params),
    sent,
    id: name === 'default' ? layout : `${layout}:${name}`,
    life,
    source: Object.freeze({ ...policy }),
  });
}

/** Whether a policy is the text of a plan without a limit: `'unlimited'`, or `'minute=unlimited'` among others. */
export function isUnlimited(policy: unknown): boolean {
  return typeof policy === 'string' && /^\s*([^\s="]+=|"[^"]*"\s*=)?\s*unlimited\s*$/i.test(policy);
}

/** The policies of a valid plan, to compile them again. A plan without a limit has none. */
export function orUnlimited(policies: readonly Policy[]): Policies {
  return policies.length > 0 ? policies : 'unlimited';
}

/**
 * Validates and compiles the policies of one limiter. The plan `'unlimited'` has none.
 *
 * @param what their place in the options, for messages
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` with the fault, the value and a correct one
 */
export function compilePolicies(what: string, given: Policies): readonly CompiledPolicy[] {
  const policies = typeof given === 'string' ? [given] : given;
  if (!Array.isArray(policies) || policies.length === 0 || policies.length > 32) {
    throw invalidOption(
      what,
      policies,
      'Pass an array of 1 to 32 policies: [{ limit: 100, window: "1m" }], or ["100/1m"]. For a plan without a limit, pass \'unlimited\'.',
    );
  }
  const compiled = policies.flatMap((policy: Policy | string, i) => {
    if (isUnlimited(policy)) return [];
    const single = policies.length === 1;
    return compilePolicy(single ? what : `${what}[${i}]`, policy, single ? 'default' : `policy-${i + 1}`);
  });
  const names = compiled.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined)
    throw invalidOption(`${what}: name`, twice, 'Give each policy of a limiter its own name.');
  checkSlotTenants(compiled);
  // The array is not frozen, because V8 reads the elements of frozen arrays slowly.
  return withHidden(compiled);
}

/**
 * Validates policies. @returns the policies as data, without the hidden policies of shared limits @throws HeadgateError as
 * {@link compilePolicies}
 */
export function validPolicies(what: string, given: Policies): Policy[] {
  return visiblePolicies(compilePolicies(what, given)).map(({ source }) => source);
}

/**
 * Reads a policy from text: `'300/1m'`, `'burst=token-bucket 100/1m burst 20'`.
 *
 * @returns the valid policy as data
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` with the wrong word, its position, and a correction
 */
export function parsePolicy(text: string): Policy {
  if (typeof text !== 'string') throw invalidOption('policy', text, "Pass a text, such as '100/1m'.");
  return { ...compilePolicy('policy', text, 'default').source };
}

/**
 * The canonical text of a policy. Policies with the same meaning have the same text, in whatever form they were given. {@link parsePolicy}
 * reads it.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, as `createLimiter`
 */
export function policyText(policy: Policy | string): string {
  return canonicalText(compilePolicy('policy', policy, 'default'));
}

/** A copy of a policy with a change. */
export function policyWith(policy: CompiledPolicy, change: Partial<CompiledPolicy>): CompiledPolicy {
  return { ...policy, ...change };
}
