import type { Crossing } from './contract/crossing.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import type { Feature } from '../feature.js';
import { list, text } from '../layout.js';
import { cross, forget } from './crossing-marks.js';
import { reportCrossings } from './crossing-reports.js';
import { CROSSINGS_LIFE_MS, hasThresholds, MAX_CROSSINGS, marksOf } from './crossings.js';
import { streamKey } from './stream.js';

/** Reports once when a charge reaches a fraction of a limit. */
export const thresholds: Feature = {
  name: 'thresholds',
  scripts: ['read-crossings'],
  streamOption: "thresholds: 'stream'",
  appliesTo: hasThresholds,
  args: {
    near: list(({ policies }: PolicySet) =>
      policies.map(({ thresholds, traits: { capacity } }) =>
        thresholds ? capacity - Math.ceil((thresholds[0]! * capacity) / 1000) : -1,
      ),
    ),
    thresholds: text(({ policies }: PolicySet, { stream }) => {
      const texts = policies.map(({ thresholds = [], traits: { capacity } }) =>
        [capacity, ...thresholds].join(' '),
      );
      return [stream ? `*${MAX_CROSSINGS} ${CROSSINGS_LIFE_MS}` : '', ...texts].join('/');
    }),
  },
  keys(to, headsOf, request) {
    const { policies } = headsOf(request);
    request.set.policies.forEach((policy, i) => {
      for (const tag of marksOf(policy)) to.push(`${policies[i]!}}${tag}`);
    });
  },
  callKeys(to, { prefix, stream }) {
    if (stream) to.push(streamKey(prefix));
  },
  readEnd,
  charged: cross,
  // Units that are charged ahead would be reported too early.
  mayChargeAhead: () => false,
  reset: forget,
  answered(subject, { crossings }) {
    if (crossings) reportCrossings(subject, crossings);
  },
};

/** The numbers of a crossing in a reply, after the position of its request. */
const FIELDS = ['at', 'level', 'used', 'limit', 'resetAfterMs'] as const;

function readEnd(reply: unknown[]): ReadonlyMap<number, Pick<Reply, 'crossings'>> {
  const replies = new Map<number, Pick<Reply, 'crossings'>>();
  if (!Array.isArray(reply.at(-1))) return replies;
  const numbers = reply.pop() as number[];
  for (let n = 0; n < numbers.length; n += 1 + FIELDS.length) {
    const request = numbers[n]!;
    const crossing = Object.fromEntries(FIELDS.map((field, i) => [field, numbers[n + 1 + i]!]));
    const { crossings = [] } = replies.get(request) ?? {};
    replies.set(request, { crossings: [...crossings, crossing as unknown as Crossing] });
  }
  return replies;
}
