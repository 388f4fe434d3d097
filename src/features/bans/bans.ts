import { refuse, strike } from './ban-operations.js';
import { marksOf } from '../thresholds/crossings.js';
import { subjectOf } from '../../contract/dimensions.js';
import { DEFAULT_DIMENSION, type Key } from '../../contract/key.js';
import type { PolicySet, Subject } from '../../contract/store.js';
import { BAN_TAG, historyTag } from '../../stores/keys.js';
import type { Feature, HeadsOf, Tag } from '../feature.js';
import { number, text } from '../layout.js';
import { bansByDenials } from './ban-waits.js';

/** Precedes a ban in a reply of Redis. */
const BAN_MARK = -3;

/** Denies a banned key, and bans a key after denials. */
export const bans: Feature = {
  name: 'bans',
  appliesTo: ({ ban }) => ban !== undefined,
  // A denial by a shadow does not count for a ban.
  isInSingle: ({ policies }) => !policies[0]!.shadow,
  isInLooks: true,
  byHand: { isOf: ({ ban }) => !!ban, scripts: ['set-ban'], command: 'log', isBestEffort: true },
  decisionArgs: {
    // One text, because each argument costs the server time, and the params are rarely needed.
    ban_text: text((set: PolicySet) => [...paramsOf(set), ...offended(set)].join(' ')),
  },
  tags: (set) => [{ tag: BAN_TAG, by: dimensionOf(set) }],
  read(reply, at, answer) {
    if (reply[at] !== BAN_MARK) return at;
    answer.ban = reply[at + 1] as number;
    return at + 2;
  },
  refuses: refuse,
  denied: strike,
  // Each denial that counts towards a ban must reach the store.
  remembered: (set, _, isRefused) => (isRefused || !bansByDenials(set) ? Infinity : 0),
};

function paramsOf({ ban }: PolicySet): number[] {
  return Object.values(ban!) as number[];
}

/** The positions, from 1, of the policies whose denials count towards the ban: those of its dimension. */
function offended(set: PolicySet): number[] {
  const banBy = dimensionOf(set);
  return set.policies.flatMap(({ by, isHidden }, i) => (by === banBy && !isHidden ? [i + 1] : []));
}

function dimensionOf({ dimensions }: PolicySet): string {
  return dimensions?.banBy ?? DEFAULT_DIMENSION;
}

/** The call of a script that bans a key by hand. It returns how many ms of an earlier ban were left. */
export function banCall(headsOf: HeadsOf, subject: Subject, duration: number) {
  return {
    script: 'set-ban' as const,
    keys: [`${headsOf(subject).of(dimensionOf(subject.set))}}${BAN_TAG}`],
    args: [duration, ...paramsOf(subject.set)].map(String),
    read: Number,
  };
}

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
      chargedPolicies(set)
        .map(({ id, by, life }) => `${positionOf(set, id, by)} ${life}`)
        .join(' '),
    ),
  },
  tags: tagsOfCharges,
  beside: ({ freshBans }) => freshBans!.charges,
  // Once the ban has forgotten charges, the policies deny for a shorter time.
  remembered: (_, { ban }) => (ban < 0 ? 0 : Infinity),
};

function chargedPolicies({ freshBans }: PolicySet): PolicySet['policies'] {
  return freshBans!.charges.policies;
}

/** The position of a policy in a set, from 1, or 0. */
function positionOf({ policies }: PolicySet, id: string, by: string): number {
  return policies.findIndex((policy) => policy.id === id && policy.by === by) + 1;
}

/** The tags of the forgotten states and their histories, then of the marks of thresholds. A set's own states are among its keys. */
function tagsOfCharges(set: PolicySet): Tag[] {
  const policies = chargedPolicies(set);
  const states = policies.flatMap(({ id, by }) => {
    const history = { tag: historyTag(id), by };
    return positionOf(set, id, by) > 0 ? [history] : [{ tag: id, by }, history];
  });
  const marks = policies.flatMap((policy) => marksOf(policy).map((tag) => ({ tag, by: policy.by })));
  return [...states, ...marks];
}

/** The charges that the ban of a subject's key forgets, if it forgets any. */
export function forgottenBy(subject: Subject): Subject | undefined {
  const { freshBans } = subject.set;
  return freshBans && chargesIn(freshBans.charges, subject);
}

/** The key of a subject in other policies, with the dimensions that these have. */
export function chargesIn(charges: PolicySet, { set, key }: Subject): Subject {
  const names = set.dimensions?.names ?? [DEFAULT_DIMENSION];
  const wanted = charges.dimensions?.names ?? [DEFAULT_DIMENSION];
  const keys = typeof key === 'string' ? [key] : key;
  const own = names.flatMap((name, i) => (wanted.includes(name) ? [[name, keys[i]]] : []));
  return subjectOf(charges, Object.fromEntries(own) as Key, []);
}
