import { DOCS } from '../../common/errors.js';
import { warnOnce } from '../../common/warnings.js';
import { MAX_ENTRIES_PER_RECORD, UNENDED_RECORD_MS, type RecordChange } from './contract/records.js';
import { malformedReply } from '../../contract/reply.js';
import type { OverridePlace, OverrideStore, Subject } from '../../contract/store.js';
import type { JournalEntry } from '../../stores/journal.js';
import type { KeyText } from '../../stores/keys.js';
import { loggedChange } from './log-entry.js';
import { overriddenKey, overrideIndexKey, ownerTextOfPlace, recordKey } from './record-keys.js';

/** A record, empty if there is none, and the server's time. */
type RecordReply = readonly [record: string, now: number];

export interface RecordCall {
  readonly script: 'read-override' | 'set-override';
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** Parses the reply. @throws HeadgateError `HEADGATE_MALFORMED_REPLY` */
  read(reply: unknown): RecordReply;
}

/** The parts of a Redis store that keeps records. */
interface RedisParts {
  readonly prefix: string;
  readonly text: KeyText;
  isCluster(): boolean;
  policyKeys(subject: Subject): readonly string[];
  ask(subject: Subject, call: () => RecordCall): Promise<RecordReply>;
  /** Sends a change of a subject, after its earlier decisions. */
  change(subject: Subject, call: () => RecordCall): Promise<RecordReply>;
  /** Records a change in an index for operators, and logs it. @param length the time for which the index has it, ms */
  list(subject: Subject, index: string, length: number, change: JournalEntry): Promise<void>;
}

export function overridesOn(parts: RedisParts): OverrideStore {
  const { prefix, text } = parts;
  return {
    read: (place) => parts.ask(subjectAt(place), () => readRecord(parts, place)),
    change: async (place, change) => {
      const subject = subjectAt(place);
      const before = await parts.change(subject, () => changeRecord(parts, place, change));
      const logged = loggedChange(ownerTextOfPlace(place, text), change, ...before);
      if (!logged) return before;
      const length = change.entry === '' ? 0 : change.duration || UNENDED_RECORD_MS;
      // The caller waits without a time limit. If the override cannot be recorded for operators, it is still in force.
      const asked = { set: subject.set, key: subject.key };
      try {
        await parts.list(asked, overrideIndexKey(prefix), length, logged);
      } catch (error) {
        (change.onUnnoted ?? warnOfUnlisted)(error as Error);
      }
      return before;
    },
  };
}

function readRecord({ prefix, text }: RedisParts, place: OverridePlace): RecordCall {
  return {
    script: 'read-override',
    keys: [recordKey(prefix, ownerTextOfPlace(place, text))],
    args: [],
    read: parseRecordReply,
  };
}

/**
 * Returns the record before the change. In a cluster, the key that exists while a limiter has overrides is in another slot than the record,
 * and not used.
 */
function changeRecord(
  parts: RedisParts,
  place: OverridePlace,
  { entry, duration, life, debtLife = 0 }: RecordChange,
): RecordCall {
  const { keys } = readRecord(parts, place);
  const debts = debtKeys(parts, place);
  const flag = parts.isCluster() ? [] : [overriddenKey(parts.prefix, subjectAt(place).set.name)];
  const numbers = [duration, life, UNENDED_RECORD_MS, MAX_ENTRIES_PER_RECORD, debtLife, debts.length];
  return {
    script: 'set-override',
    keys: [...keys, ...debts, ...flag],
    args: [entry, ...numbers.map(String)],
    read: parseRecordReply,
  };
}

/** The keys of the buckets whose rate an override may change, unless it is of all keys. */
function debtKeys(parts: RedisParts, place: OverridePlace): readonly string[] {
  if (!('subject' in place)) return [];
  const { by, subject } = place;
  const { policies } = subject.set;
  return parts.policyKeys(subject).filter((_, i) => policies[i]!.by === by && policies[i]!.traits.drains);
}

function subjectAt(place: OverridePlace): Subject {
  return 'subject' in place ? place.subject : { set: place.set, key: '', call: place.call };
}

function parseRecordReply(reply: unknown): RecordReply {
  const [step, record] = Array.isArray(reply) ? (reply as unknown[]) : [];
  if (typeof step !== 'number' || typeof record !== 'string') throw malformedReply(reply);
  return [record, Math.floor(step / 1000)];
}

function warnOfUnlisted(error: Error): void {
  warnOnce(
    'HEADGATE_OVERRIDES_UNLISTED',
    `An override is in force, but \`headgate overrides\` will not show it: ${error.message} ${DOCS}/redis.md lists the permissions.`,
  );
}
