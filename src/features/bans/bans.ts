import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { PolicySet, Subject } from '../../contract/store.js';
import { BAN_TAG } from '../../stores/keys.js';
import type { Feature, HeadsOf } from '../feature.js';
import { text } from '../layout.js';
import { refuse, strike } from './ban-steps.js';

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
