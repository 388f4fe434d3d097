import { NAME } from '../algorithms/fields.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { PolicySet } from '../contract/store.js';
import { factOf } from '../contract/variant.js';

/** The constant parts of a policy set's texts. */
export interface HeaderTexts {
  readonly policies: readonly CompiledPolicy[];
  /** The index of each policy except shadows. */
  readonly enforced: readonly number[];
  /** The indices of the enforced policies that are quotas. The older dialects support only quotas. */
  readonly quotas: readonly number[];
  /** Each policy's name as a JSON string, and the beginning of the policy's item in `RateLimit`. */
  readonly names: readonly string[];
  readonly items: readonly string[];
  readonly policyItems: readonly string[];
  /** The value of `RateLimit-Policy` in draft-11, and in the earlier drafts. */
  readonly structured: string;
  readonly plain: string;
  /** The last texts behind earlier limiters on a response, with the list of these. */
  later?: { readonly earlier: string; readonly texts: HeaderTexts };
}

export const textsOf = factOf((set) => compileTexts(set));

/**
 * The texts of a set on a response with the fields of earlier limiters. The items of a list get different names.
 *
 * @param earlier the earlier `RateLimit-Policy`, in draft-11
 */
export function textsAfter(earlier: string, set: PolicySet): HeaderTexts {
  const alone = textsOf(set);
  let { later } = alone;
  if (later?.earlier !== earlier) later = alone.later = { earlier, texts: compileTexts(set, earlier) };
  return later.texts;
}

function compileTexts(set: PolicySet, earlier = ''): HeaderTexts {
  const { policies } = set;
  const names = numbered(
    policies.map((policy) => nameOf(set, policy)),
    earlier,
  );
  const enforced = [...policies.keys()].filter((i) => !policies[i]!.shadow);
  const quotas = enforced.filter((i) => !policies[i]!.traits.holdsSlots);
  const strings = names.map(structuredString);
  const policyItems = policies.map((policy, i) => strings[i]! + quotaText(policy));
  return {
    policies,
    enforced,
    quotas,
    names: names.map((name) => JSON.stringify(name)),
    items: strings.map((string) => `${string};r=`),
    policyItems,
    structured: enforced.map((i) => policyItems[i]).join(', '),
    plain: quotas.map((i) => policies[i]!.limit + spanText(policies[i]!)).join(', '),
  };
}

/** The names of a limiter. A name from the earlier list gets a number: `default-2`. */
function numbered(names: readonly string[], earlier: string): string[] {
  const result = [...names];
  names.forEach((name, i) => {
    if (!isListed(earlier, name)) return;
    let n = 2;
    while (isListed(earlier, `${name}-${n}`) || result.includes(`${name}-${n}`)) n++;
    result[i] = `${name}-${n}`;
  });
  return result;
}

function isListed(list: string, name: string): boolean {
  return `, ${list}`.includes(`, ${structuredString(name)};`);
}

/** A single policy without a name gets the limiter's name, so that clients can distinguish several limiters. */
function nameOf({ name, policies }: PolicySet, policy: CompiledPolicy): string {
  return policies.length === 1 && policy.name === 'default' && NAME.test(name) ? name : policy.name;
}

/** Quotes a text as a string of RFC 9651, section 3.3.3. */
function structuredString(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

function quotaText(policy: CompiledPolicy): string {
  const { limit, traits } = policy;
  const { holdsSlots, unit } = traits;
  return `;q=${limit}${holdsSlots ? '' : spanText(policy)}${unit === undefined ? '' : `;qu="${unit}"`}`;
}

function spanText({ window }: CompiledPolicy): string {
  return `;w=${Math.ceil(window / 1000)}`;
}
