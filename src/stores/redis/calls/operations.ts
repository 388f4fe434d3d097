// The calls of scripts for another purpose than a decision. Their arguments may depend on the time, so each call has a new operation.
import { costAt, NO_COSTS } from '../../../contract/costs.js';
import { kindOfChange, looksOf, ownArgs } from '../../../features/features.js';
import { argsBy, pushRequestArgs } from '../../../features/layout.js';
import type { ChangeReply, UsageReply } from '../../../contract/reply.js';
import { lookOf, type ChargeChange, type LeaseChange, type Subject } from '../../../contract/store.js';
import type { JournalEntry as LoggedChange } from '../../journal.js';
import { BOOK_BOUNDS, bookArgs, bookKeys, logArgs } from '../operators/ban-book.js';
import { assemble, type Script, type ScriptName } from '../scripts.js';
import { argsOf, partsOfLooks, type Plans } from './plans.js';
import { costArg, decodeChange, decodeUsage, policiesArg } from './wire.js';

export interface Operation<T> {
  readonly script: Script;
  readonly keys: readonly string[];
  /** The script's arguments after the deadline. */
  readonly args: readonly string[];
  /** Parses the reply. @throws HeadgateError `HEADGATE_MALFORMED_REPLY` */
  read(reply: unknown): T;
}

/** Charges or returns units. Several changes return known charges of sets without features, in a call as of a single key with all policies. */
export function adjust(
  plans: Plans,
  changes: readonly [ChargeChange, ...ChargeChange[]],
): Operation<ChangeReply> {
  const [{ set, key, claim, idHome }] = changes;
  const plan = plans.of(set, kindOfChange(changes[0]));
  const policies = changes.flatMap((change) => change.set.policies);
  const keys = changes.flatMap(({ set, key }) => plans.of(set).keys.policies(key));
  const histories = changes.flatMap((change) => historyKeys(plans, change));
  const isOne = changes.length === 1;
  const own: string[] = [];
  const lastKeys: string[] = [];
  const features = isOne ? plan.features : [];
  plans.pushFeatures(own, features, { set, key, id: claim?.id, idHome });
  for (const feature of features) feature.changeKeys?.(lastKeys, plans.headsOf, changes[0]);
  for (const feature of features) feature.callKeys?.(lastKeys, plans);
  const kernels = policies.map(({ kernel }) => kernel);
  return {
    script: isOne ? plan.adjust : assemble('adjust', kernels),
    keys: [...keys, ...histories, ...own, ...lastKeys],
    args: [
      ...(isOne ? plan.adjustArgs : [policiesArg(policies, plans.now)]),
      ...features.flatMap(({ changeArgs }) => argsBy(changeArgs, changes[0], plans)),
      ...changes.flatMap(chargeArgs),
    ],
    read: (reply) => decodeChange(reply, policies.length, features),
  };
}

/**
 * The keys of the histories. A change without a charge does not read them. It repeats the keys of the policies instead: while a cluster moves
 * a slot, the server refuses calls whose keys exist in part.
 */
function historyKeys(plans: Plans, { set, key, charged }: ChargeChange): string[] {
  const { keys } = plans.of(set);
  return charged ? keys.histories(key) : keys.policies(key);
}

/** Looks at a key by the deciding script, with the script's parts for usage. */
export function usage(plans: Plans, { set, key }: Subject): Operation<UsageReply> {
  const maker = plans.of(set).keys;
  const kernels = set.policies.map(({ kernel }) => kernel);
  const keys: string[] = [];
  maker.push(keys, key);
  const looks = looksOf(set);
  const last = looks.flatMap(({ lastOfLooks }) => lastOfLooks ?? []);
  for (const { tag } of last) maker.pushTagged(keys, key, tag);
  const [, ...args] = argsOf(set, false, plans.now, ownArgs(looks, set, plans)).evaluateArgs;
  const query = lookOf({ set, key }, NO_COSTS);
  for (const { requestArgs } of looks) if (requestArgs) pushRequestArgs(args, requestArgs, [query], plans);
  return {
    script: assemble('evaluate', kernels, [...partsOfLooks(set), 'usage']),
    keys,
    args: [...args, costArg(0, true), ...last.map(({ arg }) => arg)],
    read: (reply) => decodeUsage(reply, set),
  };
}

function chargeArgs({ set, units, charged }: ChargeChange): string[] {
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
    script: assemble('lease', kernels),
    keys: at.map((i) => keys[i]!),
    args: [change.action, change.lease, policiesArg(policies, plans.now), ...units],
    read: (reply) => reply === 1,
  };
}

export function reset(plans: Plans, { set, key }: Subject): Operation<void> {
  const { keys: maker, features } = plans.of(set);
  const own: string[] = [];
  plans.pushFeatures(own, features, { set, key });
  return {
    script: assemble('reset'),
    keys: [...maker.policies(key), ...maker.histories(key), ...own],
    args: set.policies.map(({ life }) => String(life)),
    read: () => {},
  };
}

export function ofFeature<T>({
  script,
  ...call
}: Omit<Operation<T>, 'script'> & { script: ScriptName }): Operation<T> {
  return { ...call, script: assemble(script) };
}

/** Records a change in an index for operators, in the slot of the index. @param length the time for which the index has it, ms */
export function noteChange(index: string, who: string, length: number): Operation<void> {
  return {
    script: assemble('note-changes'),
    keys: [index],
    args: [...BOOK_BOUNDS, ...bookArgs(who, length)],
    read: () => {},
  };
}

/** Logs a change for operators, in the slot of the log. */
export function logChange(plans: Plans, change: LoggedChange): Operation<void> {
  return {
    script: assemble('note-changes'),
    keys: bookKeys(plans.prefix),
    args: [...BOOK_BOUNDS, ...logArgs(change)],
    read: () => {},
  };
}
