import type { JournalEntry, ListedChange } from '../../stores/journal.js';
import { BOOK_BOUNDS, bookKeys, logArgs } from '../../stores/redis/operators/ban-book.js';
import { assemble } from '../../stores/redis/scripts.js';
import { LogPages } from '../log-pages.js';
import type { ChangeLog } from '../state.js';
import { reasonOf, type Calls } from './calls.js';

/** An entry with its number within a millisecond. */
type Entry = ListedChange & { readonly step: number };

/** The log of changes, which a script writes together with the index and the notes of bans. */
export class RedisLog implements ChangeLog {
  readonly #calls: Calls;

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  async add(change: JournalEntry): Promise<string | undefined> {
    return this.write(logArgs(change)).then(() => undefined, reasonOf);
  }

  /** @param args those of `note-changes.lua` */
  async write(args: readonly string[]): Promise<void> {
    const script = assemble('note-changes');
    await this.#calls.run(script, bookKeys(this.#calls.prefix), ['', ...BOOK_BOUNDS, ...args]);
  }

  /** The changes by operators and the automatic ones, together. */
  async *since(time: number): AsyncGenerator<ListedChange> {
    const [, , byHand, , automatic] = bookKeys(this.#calls.prefix);
    const logs = [entries(this.#calls, byHand, time, ''), entries(this.#calls, automatic, time, 'a')];
    const heads = await Promise.all(logs.map((log) => log.next()));
    for (;;) {
      const left = heads.flatMap(({ done, value }, i) => (done ? [] : [{ i, change: value }]));
      if (left.length === 0) return;
      const { i, change } = left.reduce((newest, each) =>
        isLater(each.change, newest.change) ? each : newest,
      );
      const { step: _, ...shown } = change;
      yield shown;
      heads[i] = await logs[i]!.next();
    }
  }
}

/** The entries of a stream, the newest first. An entry that Headgate did not write is skipped. @param mark makes the ids of streams differ */
async function* entries(calls: Calls, key: string, since: number, mark: string): AsyncGenerator<Entry> {
  let end = '+';
  const first = since > 0 ? String(since) : '-';
  const pages = new LogPages();
  for (;;) {
    const page = await calls.call('XREVRANGE', key, end, first, 'COUNT', String(pages.size));
    const found = page as [id: string, fields: string[]][];
    const isLast = pages.isLast(found.map(([, [, text = '']]) => text));
    for (const [id, [, text = '']] of found) {
      const [at, step] = id.split('-').map(Number) as [number, number];
      const change = parse(text);
      if (change) yield { ...change, id: id + mark, at, step };
    }
    if (isLast) return;
    // Redis 6.0 knows no exclusive ranges.
    const [ms, n] = found.at(-1)![0].split('-').map(Number) as [number, number];
    end = n === 0 ? String(ms - 1) : `${ms}-${n - 1}`;
  }
}

function parse(text: string): JournalEntry | undefined {
  try {
    const change = JSON.parse(text) as Partial<JournalEntry> | null;
    return typeof change?.who === 'string' ? (change as JournalEntry) : undefined;
  } catch {
    return undefined;
  }
}

const isLater = (a: Entry, b: Entry): boolean => a.at > b.at || (a.at === b.at && a.step > b.step);
