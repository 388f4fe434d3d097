import { clearTimeout, setTimeout } from '../../common/real-time.js';
import type { Announcement } from '../../contract/store.js';
import { CHANGES_LIFE_MS, configuredChange } from '../journal.js';
import { configurationOf, describe } from '../published.js';
import type { Transactions } from './transactions.js';

/** The delay before options are compared, ms, which keeps it out of the start of the process. */
const COMPARISON_DELAY_MS = 1000;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Logs limiters with other options than those that a process had before. The options of each limiter have a row beside the state. */
export class Configurations {
  readonly #transactions: Transactions;
  readonly #limiters: ReadonlySet<Announcement>;
  #timer: NodeJS.Timeout | undefined;

  constructor(transactions: Transactions, limiters: ReadonlySet<Announcement>) {
    this.#transactions = transactions;
    this.#limiters = limiters;
  }

  /** Compares soon, after a limiter was added. */
  begin(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      for (const limiter of this.#limiters) this.#compare(limiter);
    }, COMPARISON_DELAY_MS).unref();
  }

  /** Compares the options of a limiter that ends before its comparison. */
  end(limiter: Announcement): void {
    if (this.#timer) this.#compare(limiter);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #compare(limiter: Announcement): void {
    const { name, ...options } = configurationOf(describe(limiter));
    const text = JSON.stringify(options);
    // No state has a key without a colon between the braces.
    const key = `{options}${encodeURIComponent(name)}`;
    const updated = this.#transactions.update(
      [key],
      ([bytes], at) => {
        const before = bytes && decoder.decode(bytes);
        const change = {
          changed: before !== text,
          bytes: encoder.encode(text),
          expiresAt: at + CHANGES_LIFE_MS,
        };
        if (before === undefined || before === text) return [change];
        const logged = { ...configuredChange(name, options), before: JSON.parse(before) as object, at };
        return [{ ...change, log: [logged] }];
      },
      [],
    );
    // Limits do not depend on the log.
    updated.catch(() => {});
  }
}
