import { DEFAULT_ALGORITHM } from './algorithms/index.js';
import { toMilliseconds, toText } from './duration.js';
import type { CompiledPolicy, Policy } from './policy.js';

/** The fields that the text has words for; a policy with any other is written as JSON. */
const WORDS = [
  'name',
  'algorithm',
  'limit',
  'window',
  'lease',
  'shadow',
  'burst',
  'segments',
  'maxDelay',
  'count',
];

/** A policy as it is written on a command line; as JSON if it cannot be written otherwise. */
export function policyText(policy: Policy): string {
  const { name, algorithm, limit, shadow } = policy;
  const isPlain = name === undefined || /^[^\s=[{]+$/.test(name);
  if (!isPlain || Object.keys(policy).some((field) => !WORDS.includes(field))) return JSON.stringify(policy);
  const span = 'lease' in policy ? policy.lease : policy.window;
  const time = typeof span === 'number' ? `${span}ms` : span;
  const words = [
    ...(algorithm === undefined || algorithm === DEFAULT_ALGORITHM ? [] : [algorithm]),
    `${limit}/${time.replace(/\s+/g, '')}`,
    ...('burst' in policy && policy.burst !== undefined ? [`burst ${policy.burst}`] : []),
    ...('segments' in policy && policy.segments !== undefined ? [`segments ${policy.segments}`] : []),
    ...('maxDelay' in policy && policy.maxDelay !== undefined
      ? [`max-delay ${typeof policy.maxDelay === 'number' ? `${policy.maxDelay}ms` : policy.maxDelay}`]
      : []),
    ...('count' in policy && policy.count === 'attempts' ? ['attempts'] : []),
    ...(shadow ? ['shadow'] : []),
  ];
  return `${name === undefined ? '' : `${name}=`}${words.join(' ')}`;
}

/** The same text for all policies that mean the same, however they were written. */
export function canonicalText({ name, window, source }: CompiledPolicy): string {
  const policy: Record<string, unknown> = { ...source };
  for (const span of ['window', 'lease']) if (policy[span] !== undefined) policy[span] = toText(window);
  const { burst, segments, limit, maxDelay, shadow } = policy;
  if (burst === limit) delete policy['burst'];
  if (segments === 10) delete policy['segments'];
  if (shadow === false) delete policy['shadow'];
  if (policy['count'] === 'admitted') delete policy['count'];
  if (maxDelay !== undefined) {
    const delay = toMilliseconds('maxDelay', maxDelay, 0);
    if (delay === 0) delete policy['maxDelay'];
    else policy['maxDelay'] = toText(delay);
  }
  for (const [field, value] of Object.entries(policy)) if (value === undefined) delete policy[field];
  if (name === 'default') delete policy['name'];
  else policy['name'] = name;
  return policyText(policy as unknown as Policy);
}
