// The calls of scripts for another purpose than a decision. Their arguments may depend on the time, so each call has a new operation.
import { costAt } from '../../../contract/costs.js';
import { MAX_ENTRIES_PER_RECORD, UNENDED_RECORD_MS, type RecordChange } from '../../../contract/overrides.js';
import type { Claim } from '../../../contract/claim.js';
import { leaseTag } from '../../../contract/shares.js';
import { idLifeOf, policiesText } from '../../../contract/request-ids.js';
import { malformedReply, type ChangeReply, type UsageReply } from '../../../contract/reply.js';
import type { Change, LeaseChange, OverridePlace, PolicySet, Subject } from '../../../contract/store.js';
import type { Change as LoggedChange } from '../../journal.js';
import { overriddenKey, ownerTextOfPlace, recordKey } from '../../keys.js';
import { BOOK_BOUNDS, bookKeys, logArgs } from '../operators/ban-book.js';
import { overrideBookArgs, overrideBookKeys } from '../operators/override-book.js';
import { assemble, type Script } from '../scripts.js';
import { argsOf, type Plans } from './plans.js';
import { costArg, decodeChange, decodeUsage, policyArgs } from './wire.js';

/** One call of a script. */
export interface Operation<T> {
  readonly script: Script;
  readonly keys: readonly string[];
  /** The script's arguments after the deadline. */
  readonly args: readonly string[];
  /** Parses the reply. @throws HeadgateError `HEADGATE_MALFORMED_REPLY` */
  read(reply: unknown): T;
}

/** A record of overrides, empty if there is none, and the server's time. */
type RecordReply = [record: string, now: number];

/** Charges or returns units. Several changes return known charges, without overrides, in a call as of a single key with all policies. */
export function adjust(plans: Plans, changes: readonly [Change, ...Change[]]): Operation<ChangeReply> {
  const [{ set, key, claim }] = changes;
  const plan = plans.of(set, claim !== undefined);
  const policies = changes.flatMap((change) => change.set.policies);
  const all = changes.map(({ set, key, charged }) => plans.of(set).keys.policies(key, charged !== undefined));
  const keys = all.flatMap((each, i) => each.slice(0, changes[i]!.set.policies.length));
  const histories = all.flatMap((each, i) => each.slice(changes[i]!.set.policies.length));
  const records = set.overrides ? plan.keys.records(key) : [];
  const isOne = changes.length === 1;
  const idKeys: string[] = [];
  if (claim) plan.keys.pushId(idKeys, key, claim.id);
  if (isOne) plan.keys.pushMarks(idKeys, key);
  const kernels = policies.map(({ kernel }) => kernel);
  return {
    script: isOne ? plan.adjust : assemble('adjust', kernels, false),
    keys: [...keys, ...histories, ...records, ...idKeys, ...(isOne ? plan.stream : [])],
    args: [
      ...(isOne ? plan.adjustArgs : policyArgs(policies, plans.now)),
      ...(claim ? claimArgs(claim, set) : []),
      ...changes.flatMap(chargeArgs),
    ],
    read: (reply) => decodeChange(reply, policies.length),
  };
}

/** Looks at a key by the deciding script, with the script's parts for usage. */
export function usage(plans: Plans, { set, key }: Subject): Operation<UsageReply> {
  const { keys: maker, leases, shares } = plans.of(set);
  const kernels = set.policies.map(({ kernel }) => kernel);
  const isLive = set.overrides !== undefined;
  const keys: string[] = [];
  maker.push(keys, key);
  if (isLive) maker.pushRecords(keys, key);
  const [, ...args] = argsOf(set, false, plans.now).evaluateArgs;
  return {
    script: assemble('evaluate', kernels, set.ban !== undefined, isLive, ['usage']),
    keys,
    args: [
      ...[...args, costArg(0, true), ...(leases ? [leaseTag({ set, key })] : [])],
      ...[...(shares ? ['0'] : []), ...(isLive ? ['r'] : [])],
    ],
    read: (reply) => decodeUsage(reply, set),
  };
}

/** The arguments of `ids.lua` for a change. */
function claimArgs({ step, isFirst, owner, isLast }: Claim, set: PolicySet): string[] {
  return [
    String(idLifeOf(set)),
    policiesText(set),
    String(step),
    isFirst ? '1' : '0',
    owner,
    isLast ? '1' : '0',
  ];
}

/** The arguments of `adjust.lua` for each charge. */
function chargeArgs({ set, units, charged }: Change): string[] {
  return set.policies.flatMap(({ life }, i) => {
    const step = charged?.steps?.[i] ?? charged?.step ?? 0;
    return [String(units[i]), String(step), String(charged?.marks[i] ?? 0), String(life)];
  });
}

export function lease(plans: Plans, change: LeaseChange): Operation<boolean> {
  const { set, key } = change;
  const keys = plans.of(set).keys.policies(key);
  const at = [...set.policies.keys()].filter((i) => set.policies[i]!.traits.holdsSlots);
  const policies = at.map((i) => set.policies[i]!);
  const kernels = policies.map(({ kernel }) => kernel);
  const units = at.map((i) => String(costAt(change, i)));
  return {
    script: assemble('lease', kernels, false),
    keys: at.map((i) => keys[i]!),
    args: [change.action, change.lease, ...policyArgs(policies, plans.now), ...units],
    read: (reply) => reply === 1,
  };
}

export function reset(plans: Plans, { set, key }: Subject): Operation<void> {
  const { keys: maker } = plans.of(set);
  const marks: string[] = [];
  maker.pushMarks(marks, key);
  return {
    script: assemble('reset', [], false),
    keys: [...maker.policies(key, true), ...marks],
    args: set.policies.map(({ life }) => String(life)),
    read: () => {},
  };
}

/** Its answer is the rest of the ban before, ms. */
export function ban(plans: Plans, { set, key }: Subject, duration: number): Operation<number> {
  return {
    script: assemble('set-ban', [], true),
    keys: [plans.of(set).keys.ban(key)],
    args: [String(duration), ...Object.values(set.ban!).map(String)],
    read: Number,
  };
}

export function readOverride({ prefix, text }: Plans, place: OverridePlace): Operation<RecordReply> {
  return {
    script: assemble('read-override', [], false),
    keys: [recordKey(prefix, ownerTextOfPlace(place, text))],
    args: [],
    read: readRecord,
  };
}

/**
 * Returns the record before the change. In a cluster, the key that exists while a limiter has overrides is in another slot than the record,
 * and not used.
 */
export function setOverride(
  plans: Plans,
  place: OverridePlace,
  { entry, duration, life }: RecordChange,
  isCluster: boolean,
): Operation<RecordReply> {
  const { keys } = readOverride(plans, place);
  return {
    script: assemble('set-override', [], false),
    keys: isCluster ? keys : [...keys, overriddenKey(plans.prefix, subjectAt(place).set.name)],
    args: [entry, ...[duration, life, UNENDED_RECORD_MS, MAX_ENTRIES_PER_RECORD].map(String)],
    read: readRecord,
  };
}

/** Records an override for operators, in its own slot. */
export function noteOverride(plans: Plans, place: OverridePlace, change: RecordChange): Operation<void> {
  return {
    script: assemble('note-override', [], false),
    keys: overrideBookKeys(plans.prefix),
    args: overrideBookArgs(ownerTextOfPlace(place, plans.text), change),
    read: () => {},
  };
}

/** Logs a change for operators, in the slot of the log. */
export function logChange(plans: Plans, change: LoggedChange): Operation<void> {
  return {
    script: assemble('note-bans', [], false),
    keys: bookKeys(plans.prefix),
    args: [...BOOK_BOUNDS, ...logArgs(change)],
    read: () => {},
  };
}

export function subjectAt(place: OverridePlace): Subject {
  return 'subject' in place ? place.subject : { set: place.set, key: '', call: place.call };
}

function readRecord(reply: unknown): RecordReply {
  const [step, record] = Array.isArray(reply) ? (reply as unknown[]) : [];
  if (typeof step !== 'number' || typeof record !== 'string') throw malformedReply(reply);
  return [record, Math.floor(step / 1000)];
}
