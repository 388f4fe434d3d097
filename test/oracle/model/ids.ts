// Ids of charged requests. A repetition gets the first answer, and can return only what the first was charged.
import type { Handle } from './handle.js';
import type { Decision } from './types.js';

export interface Record {
  readonly decision: Decision;
  readonly handle: Handle;
  readonly until: number;
  repetitions: number;
}

export class Ids {
  private readonly records = new Map<string, Record>();

  /** The record that a repetition is answered from, or undefined if the request is like a new one. */
  repeated(key: string, id: string, now: number, repeats: number): Record | undefined {
    const record = this.records.get(`${key}\n${id}`);
    if (!record || now >= record.until || record.handle.isReturned || record.repetitions >= repeats)
      return undefined;
    record.repetitions++;
    return record;
  }

  /** Remembers a charged request, unless its id was repeated too often: then it stays so. */
  remember(key: string, id: string, record: Record, now: number): void {
    const place = `${key}\n${id}`;
    const last = this.records.get(place);
    const isFree = last?.handle.isReturned && last.repetitions === 0;
    if (!last || now >= last.until || isFree) this.records.set(place, record);
  }
}
