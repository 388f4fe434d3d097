import { inBackground } from '../../common/background.js';
import type { Announcement } from '../../contract/announcement.js';
import { CHANGES_LIFE_MS, configuredChange } from '../journal.js';
import { configurationOf, describe, type PublishedLimiter } from '../published.js';
import type { Call } from '../../contract/store.js';
import type { Askers, StateBackend } from './state-store.js';

export type UpdateRows = NonNullable<StateBackend['updateAll']>;

/** The prefix of the rows of options. No state has a key without a colon between the braces. */
export const OPTIONS_ROW = '{options}';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Logs limiters with other options than an earlier process had. The options of each limiter have a row beside the state. */
export class Configurations {
  /** The limiters whose options are compared together with the next update. */
  readonly pending = new Set<Announcement>();
  readonly #update: UpdateRows;

  constructor(update: UpdateRows) {
    this.#update = update;
  }

  /** Compares pending options in the transaction of the update that was just requested, so that the update's caller learns of a lost database. */
  compare(askers: Askers): void {
    for (const limiter of this.pending) this.#compare(limiter, askers.map(observerOf));
    this.pending.clear();
  }

  #compare(limiter: Announcement, askers: Askers): void {
    const { name, ...options } = configurationOf(describe(limiter));
    const text = JSON.stringify(options);
    // JSON escapes halves of surrogate pairs, which a URI cannot contain.
    const key = OPTIONS_ROW + encodeURIComponent(JSON.stringify(name));
    const updated = this.#update(
      [key],
      ([bytes], at) => {
        const before = bytes && decoder.decode(bytes);
        const expiresAt = at + CHANGES_LIFE_MS;
        const change = { changed: before !== text, bytes: encoder.encode(text), expiresAt };
        if (before === undefined || before === text) return [change];
        const logged = { ...configuredChange(name, options), before: JSON.parse(before) as object, at };
        return [{ ...change, log: [logged] }];
      },
      askers,
    );
    // Limits do not depend on the log.
    void inBackground('A change of options was not logged', Promise.resolve(updated));
  }
}

/** The limiter in a row of options. Empty if the row cannot be read. */
export function storedLimiter(key: string, bytes: Uint8Array): PublishedLimiter[] {
  try {
    const name = JSON.parse(decodeURIComponent(key.slice(OPTIONS_ROW.length))) as string;
    const options = JSON.parse(decoder.decode(bytes)) as ReturnType<typeof configurationOf>;
    return Array.isArray(options.policies) ? [{ ...options, name, ipv6Subnets: [] }] : [];
  } catch {
    return [];
  }
}

/** An asker whose update is dropped with that of another asker, and does not change the time of its call. */
function observerOf({ subject }: Askers[number]): Askers[number] {
  return { subject: { ...subject, call: subject.call && (Object.create(subject.call) as Call) } };
}
