import { costAt } from '../../../contract/costs.js';
import { MAX_ENTRIES_PER_RECORD, UNENDED_RECORD_MS, type RecordChange } from '../../../contract/overrides.js';
import {
  malformedReply,
  type Change,
  type ChangeReply,
  type LeaseChange,
  type OverridePlace,
  type Subject,
} from '../../../contract/store.js';
import { overriddenKey, ownerTextOfPlace, recordKey } from '../../keys.js';
import { overrideBookArgs, overrideBookKeys } from '../operators/override-book.js';
import { assemble, type Script } from '../scripts.js';
import type { KeyHashing } from '../secret-keys.js';
import type { Plans } from './plans.js';
import { decodeChange, policyArgs } from './wire.js';

/** One call of a script for another purpose than a decision. */
export interface Operation<T> {
  /** The subject whose caller waits for the answer. */
  readonly subject: Subject;
  readonly script: Script;
  readonly keys: readonly string[];
  /** The script's arguments after the deadline. */
  readonly args: readonly string[];
  /** Parses the reply. @throws HeadgateError `HEADGATE_MALFORMED_REPLY` */
  read(reply: unknown): T;
}

/** A record of overrides, empty if there is none, and the server's time. */
type RecordReply = [record: string, now: number];

/** The operations of a store. Their arguments may depend on the time, so each call has a new one. */
export class Operations {
  readonly #prefix: string;
  readonly #text: KeyHashing['text'];
  readonly #plans: Plans;

  constructor(prefix: string, text: KeyHashing['text'], plans: Plans) {
    this.#prefix = prefix;
    this.#text = text;
    this.#plans = plans;
  }

  /** Charges or returns units. Several returns are one call, as of one key with all their policies; each must be of a known charge, without overrides. */
  adjust(changes: readonly Change[]): Operation<ChangeReply> {
    const [subject] = changes as [Change];
    const { set, key } = subject;
    const plan = this.#plans.of(set);
    const policies = changes.flatMap((change) => change.set.policies);
    const keys: string[] = [];
    const histories: string[] = [];
    for (const change of changes) {
      const all = this.#plans.of(change.set).keys.policies(change.key, change.charged !== undefined);
      keys.push(...all.splice(0, change.set.policies.length));
      histories.push(...all);
    }
    const isOne = changes.length === 1;
    const kernels = policies.map(({ kernel }) => kernel);
    return {
      subject,
      script: isOne ? plan.adjust : assemble('adjust', kernels, false),
      keys: [...keys, ...histories, ...(set.overrides ? plan.keys.records(key) : [])],
      args: [
        ...(isOne ? plan.adjustArgs : policyArgs(policies, this.#plans.now)),
        ...changes.flatMap(chargeArgs),
      ],
      read: (reply) => decodeChange(reply, policies.length),
    };
  }

  lease(change: LeaseChange): Operation<boolean> {
    const { set, key, lease, action } = change;
    const keys = this.#plans.of(set).keys.policies(key);
    const at = [...set.policies.keys()].filter((i) => set.policies[i]!.traits.holdsSlots);
    const policies = at.map((i) => set.policies[i]!);
    const kernels = policies.map(({ kernel }) => kernel);
    const units = at.map((i) => String(costAt(change, i)));
    return {
      subject: change,
      script: assemble('lease', kernels, false),
      keys: at.map((i) => keys[i]!),
      args: [action, lease, ...policyArgs(policies, this.#plans.now), ...units],
      read: (reply) => reply === 1,
    };
  }

  reset(subject: Subject): Operation<void> {
    const { set, key } = subject;
    return {
      subject,
      script: assemble('reset', [], false),
      keys: this.#plans.of(set).keys.policies(key, true),
      args: set.policies.map(({ life }) => String(life)),
      read: nothing,
    };
  }

  ban(subject: Subject, duration: number): Operation<void> {
    const { set, key } = subject;
    return {
      subject,
      script: assemble('set-ban', [], true),
      keys: [this.#plans.of(set).keys.ban(key)],
      args: [duration, ...(Object.values(set.ban!) as number[])].map(String),
      read: nothing,
    };
  }

  readOverride(place: OverridePlace): Operation<RecordReply> {
    return {
      subject: subjectAt(place),
      script: assemble('read-override', [], false),
      keys: [recordKey(this.#prefix, this.#ownerAt(place))],
      args: [],
      read: readRecord,
    };
  }

  /** Its answer is the record before the change. @param isCluster whether the key that exists while a limiter has overrides is in another slot */
  setOverride(place: OverridePlace, change: RecordChange, isCluster: boolean): Operation<RecordReply> {
    const { entry, duration, life } = change;
    const record = recordKey(this.#prefix, this.#ownerAt(place));
    const subject = subjectAt(place);
    return {
      subject,
      script: assemble('set-override', [], false),
      keys: isCluster ? [record] : [record, overriddenKey(this.#prefix, subject.set.name)],
      args: [entry, ...[duration, life, UNENDED_RECORD_MS, MAX_ENTRIES_PER_RECORD].map(String)],
      read: readRecord,
    };
  }

  /** Records an override for operators, in its own slot, without a time limit. */
  noteOverride(place: OverridePlace, change: RecordChange): Operation<void> {
    const { set, key } = subjectAt(place);
    return {
      subject: { set, key },
      script: assemble('note-override', [], false),
      keys: overrideBookKeys(this.#prefix),
      args: overrideBookArgs(this.#ownerAt(place), change),
      read: nothing,
    };
  }

  #ownerAt(place: OverridePlace): string {
    return ownerTextOfPlace(place, this.#text);
  }
}

function nothing(): void {}

export function subjectAt(place: OverridePlace): Subject {
  return 'subject' in place ? place.subject : { set: place.set, key: '', call: place.call };
}

function readRecord(reply: unknown): RecordReply {
  const [step, record] = Array.isArray(reply) ? (reply as unknown[]) : [];
  if (typeof step !== 'number' || typeof record !== 'string') throw malformedReply(reply);
  return [record, Math.floor(step / 1000)];
}

/** The arguments of `adjust.lua` for each charge. */
function chargeArgs({ set, units, charged }: Change): string[] {
  return set.policies.flatMap(({ life }, i) => {
    const step = charged?.steps?.[i] ?? charged?.step ?? 0;
    return [String(units[i]), String(step), String(charged?.marks[i] ?? 0), String(life)];
  });
}
