import { BAN_TAG } from '../../stores/keys.js';
import type { KeyVerdictFind } from '../finds.js';
import { whoseState } from '../owners.js';
import type { FoundKey, Search, State } from '../state.js';
import { bansOf } from './ban-finds.js';

interface Page {
  readonly keys: readonly FoundKey[];
  readonly isSearched: boolean;
}

/** Finds bans in force, each once. The order is that of the store. */
export class BanFinder {
  readonly #state: State;
  readonly #found = new Set<string>();

  constructor(state: State) {
    this.#state = state;
  }

  /** The pages of an index of bans, then those of a search. @param scan false to read only the index, if there is one */
  async *pages(search: Search, scan = true): AsyncGenerator<Page> {
    const recorded = this.#state.bans.recorded?.(search.name);
    for await (const keys of recorded ?? []) {
      yield { keys, isSearched: false };
      if (search.signal?.aborted) return;
    }
    if (recorded && !scan) return;
    for await (const keys of this.#state.search({ ...search, id: BAN_TAG })) yield { keys, isSearched: true };
  }

  /** The bans of keys that were not found before, and the keys that are not banned, but have denials that count. */
  async of(all: readonly FoundKey[]): Promise<{ finds: KeyVerdictFind[]; others: FoundKey[] }> {
    const keys = all.filter(({ owner }) => !this.#found.has(owner.text));
    if (keys.length === 0) return { finds: [], others: [] };
    const found = await bansOf(this.#state.bans, keys);
    const finds = keys.flatMap(({ owner }, i): KeyVerdictFind[] => {
      const find = found[i];
      if (!find || this.#found.has(owner.text)) return [];
      this.#found.add(owner.text);
      if (!(find instanceof Error)) return [find];
      return [{ kind: 'unreadable', ...whoseState(owner), message: find.message }];
    });
    return { finds, others: keys.filter((_, i) => found[i] === undefined) };
  }
}
