// The records of processes. A call is recorded before it begins and after its answer, so that the record outlives the process.
import { openSync, readFileSync, writeSync } from 'node:fs';
import type { Decision } from 'headgate';

export type Keys = Readonly<Record<string, string>>;

export type Call =
  | 'consume'
  | 'peek'
  | 'settle'
  | 'refund'
  | 'cancel'
  | 'release'
  | 'renew'
  | 'giveBack'
  | 'reset'
  | 'ban'
  | 'unban'
  | 'override'
  | 'remove'
  | 'usage';

export interface Asked {
  readonly call: Call;
  readonly limiter: number;
  /** Absent for overrides of all keys. */
  readonly keys?: Keys;
  readonly tier?: string;
  readonly cost?: number | Readonly<Record<string, number>>;
  readonly weight?: number;
  readonly id?: string;
  /** The record of the decision that is settled, refunded, cancelled, released or renewed. */
  readonly of?: number;
  readonly units?: number;
  /** The length of a ban or of an override, ms. */
  readonly ms?: number;
  readonly policy?: string;
  readonly limit?: number;
}

/** An answer of the limiter. */
export type Answer = Pick<
  Decision,
  'allowed' | 'reason' | 'retryAfterMs' | 'delayMs' | 'repeated' | 'degraded' | 'costs' | 'policies'
>;

export interface Entry extends Asked {
  readonly process: string;
  readonly n: number;
  readonly before: number;
  /** The time of the answer. Infinite if the process was killed before. */
  readonly after: number;
  readonly answer?: Answer;
  /** Whether a slot was released or renewed. */
  readonly done?: boolean;
  /** The end of a ban that `usage` showed. */
  readonly bannedUntil?: number;
  readonly error?: string;
}

/** Whether a request was charged. A limiter in shadow also admits what it would have denied, and charges nothing for it. */
export const isCharged = ({ call, answer }: Entry): boolean =>
  call === 'consume' && answer?.allowed === true && answer.reason === undefined && !answer.repeated;

/** A report of onThreshold, or of a reader. */
export interface Report {
  readonly process: string;
  readonly event?: { limiter: string; policy: string; key: string; threshold: number; limit: number };
  readonly read?: string;
  readonly acked?: string;
  /** The time: of a read before the call, and of an acknowledgement after it. */
  readonly at: number;
}

export class Recorder {
  readonly #file: number;
  #n = 0;

  constructor(path: string) {
    this.#file = openSync(path, 'a');
  }

  begin(asked: Asked): number {
    const n = this.#n++;
    this.write({ n, before: Date.now(), ...asked });
    return n;
  }

  end(n: number, outcome: object): void {
    this.write({ n, after: Date.now(), ...outcome });
  }

  write(record: object): void {
    writeSync(this.#file, `${JSON.stringify(record)}\n`);
  }
}

/** Reads the records of a process. */
export function readRecords(path: string, process: string): { entries: Entry[]; reports: Report[] } {
  const entries = new Map<number, Entry>();
  const reports: Report[] = [];
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    if (line === '') continue;
    const record = JSON.parse(line) as Entry & Report;
    if (record.n === undefined) reports.push({ ...record, process });
    else
      entries.set(record.n, Object.assign({ after: Infinity }, entries.get(record.n), record, { process }));
  }
  return { entries: [...entries.values()], reports };
}

export const answerOf = (decision: Decision): Answer => {
  const { allowed, reason, retryAfterMs, delayMs, repeated, degraded, costs, policies } = decision;
  return { allowed, reason, retryAfterMs, delayMs, repeated, degraded, costs, policies };
};
