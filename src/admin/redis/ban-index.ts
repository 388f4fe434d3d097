import { randomBytes } from 'node:crypto';
import { bookKeys } from '../../stores/redis/operators/ban-book.js';
import { BAN_TAG, escapeName, parseOwnerText } from '../../stores/keys.js';
import { assemble } from '../../stores/redis/scripts.js';
import type { BanChange, Found, Index, Sealing, Search } from '../state.js';
import type { Calls } from './calls.js';

/** The time for which the index counts as complete, ms. A process may stop between a ban and its record. */
const DAY = 24 * 60 * 60 * 1000;

/** The time limit of a search of all keys, ms. */
const HOUR = 60 * 60 * 1000;

/** The approximate number of bans of one step. */
const BANS_PER_STEP = 500;

/** Records bans in the index. */
interface Notes {
  note(changes: readonly BanChange[]): Promise<void>;
}

/** The index of bans in Redis, and whether the index is complete. */
export class BanIndex implements Index {
  readonly #calls: Calls;
  readonly #notes: Notes;
  readonly #index: string;
  readonly #seal: string;

  constructor(calls: Calls, notes: Notes) {
    this.#calls = calls;
    this.#notes = notes;
    const [index, , , seal] = bookKeys(calls.prefix);
    this.#index = index;
    this.#seal = seal;
  }

  /** Also false for a user without permission to read the index. */
  async isWhole(): Promise<boolean> {
    try {
      const seal = this.#calls.call('GET', this.#seal);
      const [state, member] = await Promise.all([seal, this.#calls.call('ZSCORE', this.#index, '')]);
      return state === 'whole' && member !== null;
    } catch {
      return false;
    }
  }

  /** The bans in the index, of one limiter or of all. Some may have ended. */
  async *keys({ name, progress, signal }: Search): AsyncGenerator<Found[]> {
    const size = Number(await this.#calls.call('ZCARD', this.#index));
    let cursor = '0';
    let seen = 0;
    do {
      const step = await this.#calls.call('ZSCAN', this.#index, cursor, 'COUNT', String(BANS_PER_STEP));
      const [next, members] = step as [string, string[]];
      yield members.flatMap((text, i) => {
        const owner = i % 2 === 0 ? parseOwnerText(text) : undefined;
        if (!owner || (name !== undefined && owner.scope !== escapeName(name))) return [];
        return [{ owner: { ...owner, text }, id: BAN_TAG }];
      });
      cursor = String(next);
      seen += members.length / 2;
      progress?.(cursor === '0' ? 1 : Math.min(1, seen / size));
    } while (cursor !== '0' && !signal?.aborted);
  }

  /** Begins to seal the index, before all keys are searched. No effect if the index is already complete, or may not be written. */
  async beginSeal(): Promise<Sealing> {
    const token = randomBytes(9).toString('base64url');
    const run = (life: number, ...rest: string[]): Promise<unknown> =>
      this.#calls.run(
        assemble('seal-bans', [], false),
        [this.#seal, this.#index],
        ['', token, String(life), ...rest],
      );
    let isOpen = (await run(HOUR).catch(() => 0)) === 1;
    return {
      note: async (found) => {
        if (isOpen && found.length > 0) await this.#notes.note(found).catch(() => (isOpen = false));
      },
      async end() {
        if (isOpen) await run(DAY, 'whole').catch(() => undefined);
      },
    };
  }
}
