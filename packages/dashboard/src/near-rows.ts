import type { JudgedKey, KeyView } from 'headgate/admin';
import type { Show, ShownKey } from './hidden.js';
import { byUse, nearIn, seenWith, withTrend, type NearFind, type NearKey, type Seen } from './near-finds.js';

/** The rows that are kept when there are twice as many, so that a list of them never delays other requests. */
const KEPT = 300;

export interface NearKeyOfAll extends NearKey {
  /** The limiter. */
  readonly name: ShownKey;
}

type Of = Omit<JudgedKey, 'kind' | 'likely' | 'policy' | 'retryAfterMs' | 'policies' | 'overridden'>;

interface Row {
  readonly of: Of;
  readonly find: NearFind;
  /** The time of the find, ms since 1970. */
  readonly at: number;
  readonly seen: readonly Seen[];
  /** The number of the round that read the row. */
  readonly round: number;
  /** Whether the key is no longer near this limit. Such a row is kept for its trend until the round ends. */
  readonly isGone?: true;
}

/** The keys near a limit that rounds found, the best few hundred. A row stays until a round reads its key again, or until its use has ended. */
export class NearRows {
  readonly #show: Show;
  /** By key. */
  #rows = new Map<string, readonly Row[]>();
  #round = 0;
  #isCut = false;

  constructor(show: Show) {
    this.#show = show;
  }

  /** Whether the present round has found more rows than are kept. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Begins a round. The rows of the last one stay until their keys are read. */
  begin(): void {
    this.#round++;
    this.#isCut = false;
  }

  /** Ends a round that has read all keys. Keys that it did not meet have no state. */
  end(): void {
    this.#keep([...this.#rows.values()].flat().filter(({ round }) => round === this.#round));
  }

  /** Replaces the rows of a key by those of a find. @param maxGapMs the longest time between two rounds of a trend, ms */
  take(judged: JudgedKey, maxGapMs: number): void {
    const id = keyOf(judged);
    const known = this.#rows.get(id) ?? [];
    const near = nearIn(judged, this.#show);
    if (known.length + near.length === 0) return;
    const at = Date.now();
    const { name, key, dimension, within, tier, certain } = judged;
    const found = near.map((find): Row => {
      const before = known.find((row) => row.find.id === find.id);
      return {
        of: {
          ...{ name, key, certain },
          ...(dimension !== undefined && { dimension }),
          ...(within !== undefined && { within }),
          ...(tier !== undefined && { tier }),
        },
        ...{ find, at, seen: seenWith(before?.seen, find, at, maxGapMs), round: this.#round },
      };
    });
    const others = known
      .filter((row) => !near.some((find) => find.id === row.find.id))
      // A key has a find for each tier that it may have.
      .map((row): Row => (row.round === this.#round ? row : { ...row, isGone: true }));
    this.#rows.set(id, [...others, ...found]);
    if (this.#rows.size > 2 * KEPT) this.#trim();
  }

  #trim(): void {
    const rows = this.#inOrder().map(({ row }) => row);
    if (rows.length > KEPT) this.#isCut = true;
    this.#keep(rows.slice(0, KEPT));
  }

  #keep(rows: readonly Row[]): void {
    this.#rows = new Map();
    for (const row of rows) {
      const id = keyOf(row.of);
      this.#rows.set(id, [...(this.#rows.get(id) ?? []), row]);
    }
  }

  /** Updates the rows of the first keys, because a change of an operator may have freed one. Keys whose text is unknown, and tenants, stay. */
  async update(most: number, read: (of: Of & { name: string; key: string }) => Promise<readonly KeyView[]>) {
    const first = new Map(
      this.#inOrder()
        .slice(0, most)
        .map(({ row: { of } }) => [keyOf(of), of]),
    );
    for (const [id, { name, key, ...of }] of first) {
      if (typeof name !== 'string' || typeof key !== 'string' || of.within !== undefined) continue;
      const views = await read({ ...of, name, key });
      const rows = this.#rows.get(id) ?? [];
      this.#rows.set(
        id,
        rows.flatMap((row) => this.#updated(row, views)),
      );
    }
  }

  #updated(row: Row, views: readonly KeyView[]): Row[] {
    const { tier } = row.of;
    const likely = views.filter(
      (view) => view.likely && view.within === undefined && (tier === undefined || view.tier === tier),
    );
    const policies = likely.flatMap((view) => view.policies);
    const find = nearIn({ ...row.of, policies }, this.#show).find(({ id }) => id === row.find.id);
    return find ? [{ ...row, find, at: Date.now() }] : [];
  }

  /** The rows whose use has not ended. */
  list(): readonly NearKeyOfAll[] {
    return this.#inOrder().map(({ shown }) => shown);
  }

  /** The number of rows whose use has ended, if their keys were not used since. The present round has yet to read them. */
  get old(): number {
    const now = Date.now();
    const isOld = ({ isGone, at, find, round }: Row): boolean =>
      !isGone && round !== this.#round && now - at >= find.goneAfterMs;
    return [...this.#rows.values()].flat().filter(isOld).length;
  }

  #inOrder(): { readonly row: Row; readonly shown: NearKeyOfAll }[] {
    const now = Date.now();
    return [...this.#rows.values()]
      .flat()
      .filter(({ isGone, at, find }) => !isGone && now - at < find.goneAfterMs)
      .map((row) => ({ row, shown: { ...withTrend(row.find, row.seen), name: row.of.name } }))
      .sort((a, b) => byEnd(a.shown, b.shown));
  }
}

const keyOf = ({ name, key, dimension, within }: Of): string =>
  JSON.stringify([name, key, dimension, within]);

/** The order: keys that are soon full first, then the fullest, and at last those that are full, which are listed as denied, too. */
const byEnd = (a: NearKey, b: NearKey): number =>
  Number(isFull(a)) - Number(isFull(b)) || (endOf(a) === endOf(b) ? byUse(a, b) : endOf(a) - endOf(b));

const isFull = ({ used, limit }: NearKey): boolean => used >= limit;

const endOf = ({ fullInMs }: NearKey): number => fullInMs ?? Number.MAX_SAFE_INTEGER;
