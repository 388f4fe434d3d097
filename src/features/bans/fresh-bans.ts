import type { PolicySet } from '../../contract/store.js';
import { historyTag } from '../../stores/keys.js';
import type { Feature, Tag } from '../feature.js';
import { number, text } from '../layout.js';
import { marksOf } from '../thresholds/marks.js';
import { bansByDenials } from './ban-steps.js';

/** Forgets charges of a key in the step that begins its ban. Stores other than Redis reset the subject of `forgottenBy`. */
export const freshBans: Feature = {
  name: 'fresh-bans',
  appliesTo: (set) => set.freshBans !== undefined && bansByDenials(set),
  isInSingle: () => true,
  // Looks pass the same keys as decisions.
  isInLooks: true,
  decisionArgs: {
    forgotten_keys: number((set: PolicySet) => tagsOfCharges(set).length),
    forgotten: text((set: PolicySet) =>
      policiesOf(set)
        .map(({ id, by, life }) => `${positionOf(set, id, by)} ${life}`)
        .join(' '),
    ),
  },
  tags: tagsOfCharges,
  beside: ({ freshBans }) => freshBans!.charges,
};

function policiesOf({ freshBans }: PolicySet): PolicySet['policies'] {
  return freshBans!.charges.policies;
}

/** The position of a policy in a set, from 1, or 0. */
function positionOf({ policies }: PolicySet, id: string, by: string): number {
  return policies.findIndex((policy) => policy.id === id && policy.by === by) + 1;
}

/** The tags of the forgotten states and their histories, then of the marks of thresholds. A set's own states are among its keys. */
function tagsOfCharges(set: PolicySet): Tag[] {
  const policies = policiesOf(set);
  const states = policies.flatMap(({ id, by }) => {
    const history = { tag: historyTag(id), by };
    return positionOf(set, id, by) > 0 ? [history] : [{ tag: id, by }, history];
  });
  const marks = policies.flatMap((policy) => marksOf(policy).map((tag) => ({ tag, by: policy.by })));
  return [...states, ...marks];
}
