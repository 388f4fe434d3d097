import { HeadgateError } from '../common/errors.js';
import { oncePer } from '../common/lazy.js';
import { banText } from '../features/bans/contract/ban-options.js';
import { canonicalText } from '../contract/policy-text.js';
import type { PolicySet, Store } from '../contract/store.js';

interface Claim {
  readonly named: boolean;
  readonly signature: string;
  readonly text: string;
  limiters: number;
}

function textOf({ policies, ban }: PolicySet): string {
  const texts = policies.map((policy) => canonicalText(policy));
  return [...texts, ...(ban ? [banText(ban)] : [])].join(', ');
}

const claimsOn = oncePer((_: Store) => new Map<string, Claim>());

/** The policies of a limiter. With `dynamic`, each request determines the policies. */
interface Named {
  readonly set: PolicySet;
  readonly tiers: ReadonlyMap<string, PolicySet>;
  readonly dynamic: boolean;
}

/**
 * Makes sure that limiters share state only on purpose. Each limiter of a store needs its own name. Limiters may share a name if the name
 * was passed to each limiter, and the policies are equal.
 *
 * @returns releases the claim
 * @throws HeadgateError `HEADGATE_NAME_REQUIRED`, `HEADGATE_POLICY_MISMATCH`
 */
export function claimName(
  store: Store,
  name: string | undefined,
  { set, tiers, dynamic }: Named,
): () => void {
  const names = claimsOn(store);
  const named = [...tiers].sort(([a], [b]) => (a < b ? -1 : 1)).map(([tier, own]) => [tier, described(own)]);
  const signature = dynamic ? 'dynamic' : JSON.stringify([described(set), set.ban, ...named]);
  const text = dynamic
    ? 'those of each request'
    : [set, ...tiers.values()]
        .filter(({ policies }) => policies.length > 0)
        .map(textOf)
        .join('; or ');
  const known = names.get(set.name);
  if (!known) {
    names.set(set.name, { named: name !== undefined, signature, text, limiters: 1 });
  } else if (name === undefined || !known.named) {
    throw new HeadgateError(
      'HEADGATE_NAME_REQUIRED',
      `Another limiter on this store is called ${JSON.stringify(set.name)}, and one of the two has no explicit name. Give each ` +
        `its own: name: 'login', name: 'search'. To share a quota, give both the same name.`,
    );
  } else if (known.signature !== signature) {
    throw new HeadgateError(
      'HEADGATE_POLICY_MISMATCH',
      `Another limiter on this store is called ${JSON.stringify(set.name)} and has other policies: ${known.text}. This limiter has: ${text}. ` +
        'Limiters of the same name share their quota. Give them equal policies, or different names. If each is for a plan, make one limiter ' +
        "with tiers: { free: '100/1m', pro: '1000/1m' }, and pass the tier to consume.",
    );
  } else {
    known.limiters++;
  }
  return () => {
    const known = names.get(set.name);
    if (known && --known.limiters === 0) names.delete(set.name);
  };
}

function described({ policies, dimensions }: PolicySet): unknown[] {
  return [
    policies.map(({ id, by, params, shadow, attempts, thresholds }) => [
      ...[id, by, params, shadow, attempts, thresholds],
    ]),
    dimensions,
  ];
}
