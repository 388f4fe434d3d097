import { isAsConfigured, OVERRIDE_TAG, recordDimensions, recordIdOf } from './contract/records.js';
import type { UsageReply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import type { Feature } from '../feature.js';
import { clientChanges, recordsOf, replyWithLimits, waitAcross } from './key-limits.js';
import { changeArgs, decisionArgs, RECORDS_SENT, SentRecords } from './sent-records.js';

/** The longest time for which a denial is remembered if an override may change the limits, ms. */
const MAX_STALE_MS = 1000;

/** Decides by other limits, which operators set for a key or for all keys. */
export const overrides: Feature = {
  name: 'overrides',
  appliesTo: (set) => set.overrides !== undefined,
  isInSingle: ({ overrides }) => overrides?.from === undefined,
  isInLooks: true,
  entryTag: OVERRIDE_TAG,
  byHand: {
    isOf: (limiter) => limiter.overrides ?? false,
    scripts: ['read-override', 'set-override'],
    command: 'overrides',
  },
  // The value of a bucket's unit depends on the key's overrides.
  isPerKey: true,
  lastArgs: {
    decision: decisionArgs,
    single: ({ policies }) => policies.slice(0, 1).map(recordIdOf),
    change: changeArgs,
  },
  lastOfLooks: { tag: OVERRIDE_TAG, arg: RECORDS_SENT },
  sender: (set, parts) => new SentRecords(set, parts),
  changeKeys(to, headsOf, change) {
    for (const head of headsOf(change).policies) to.push(`${head}}${OVERRIDE_TAG}`);
  },
  readUndecided(reply, at, answer, set) {
    const names = recordDimensions(set);
    answer.clientChanges = Object.fromEntries(names.map((name, n) => [name, String(reply[at + n])]));
    return at + names.length;
  },
  readUsage,
  correct: clientChanges,
  report: waitAcross,
  verdicts: replyWithLimits,
  usage: recordsOf,
  // A denial by an override is not remembered, because a new override may come at any time.
  remembered: (_, { limits }) => (limits ? 0 : MAX_STALE_MS),
  mayChargeAhead: ({ overrides }) => isAsConfigured(overrides!),
};

function readUsage(reply: unknown[], set: PolicySet): Pick<UsageReply, 'records'> {
  const names = recordDimensions(set);
  const texts = reply.splice(reply.length - names.length);
  return { records: Object.fromEntries(names.map((name, i) => [name, String(texts[i])])) };
}
