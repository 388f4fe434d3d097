import { type Admin, factJson, identityOf, type KeyRates, type KeyVerdictFind } from 'headgate/admin';
import { printable, table, type Table } from './format.js';
import { write, writeJsonLine, type Io } from './io.js';
import { causeText, showKey } from './keys.js';
import { optional } from './optional.js';

interface DeniedKey extends KeyRates {
  readonly name: string;
}

const SPAN_S = 60;

/** The keys of each limiter with most denials. */
const KEYS = 20;

/**
 * The keys that were denied in the last minute, as processes counted it. A search asks only about the next request, so it misses keys that
 * have room for a moment, and those that wait or cost more than one unit.
 */
export class DeniedLately {
  readonly #keys: Map<string, DeniedKey>;

  private constructor(keys: readonly DeniedKey[]) {
    this.#keys = new Map(keys.map((each) => [identityOf(each), each]));
  }

  static async read(admin: Admin, name: string | undefined, io: Io): Promise<DeniedLately> {
    const counted = admin.traffic({ name, seconds: SPAN_S, keys: KEYS });
    const traffic = await optional(counted, 'the counts of denials', io);
    const keys = (traffic?.limiters ?? []).flatMap((limiter) =>
      limiter.keys.map((each) => ({ ...each, name: limiter.name })),
    );
    return new DeniedLately(
      keys.filter(({ policy, reason }) => policy !== undefined || reason !== undefined),
    );
  }

  /** Leaves out a key that the list has. */
  omit(find: KeyVerdictFind): void {
    if (find.kind === 'banned' || find.kind === 'limited') this.#keys.delete(identityOf(find));
  }

  async write(io: Io): Promise<void> {
    const keys = [...this.#keys.values()];
    if (io.json) for (const each of keys) await writeJsonLine(io, denialJson(each));
    else if (keys.length > 0)
      await write(
        io,
        `\nAlso denied in the last minute, as processes counted it:\n${table(io, COLUMNS, keys)}\`headgate top\` shows them live.\n`,
      );
  }
}

/** The denied requests a second, and the cause of the last denial. */
const denialJson = ({ admitted: _, ...denied }: DeniedKey): object => factJson({ kind: 'denied', ...denied });

const COLUMNS: Table<DeniedKey> = {
  limiter: ({ name }) => printable(name),
  key: showKey,
  'denied/s': ({ denied }) => (denied === 0 ? '< 0.1' : String(denied)),
  'denied by': causeText,
};
