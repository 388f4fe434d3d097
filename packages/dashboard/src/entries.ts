// The entries of the log that a change wrote, by whose ids the page undoes the change.
import type { Admin, BanResult, LoggedChange, OverrideResult, UnbanResult } from 'headgate/admin';

export type Note = { readonly by: string; readonly reason: string };

/** An entry that a change wrote, as far as the result of the change describes it. */
export interface Written extends Pick<LoggedChange, 'action' | 'name'> {
  /** The limiter's key, or the network. Absent for all keys. */
  readonly key?: string | undefined;
  readonly dimension?: string | undefined;
  /** The number of keys, if there may be several. Those of an import are unknown. */
  readonly keys?: number | 'unknown' | undefined;
}

/** The time before the newest entry in which a later entry can still be listed, ms: stores order entries of the same moment differently. */
const UNORDERED_MS = 1000;

/** The end of the log before a change. Entries are recognized by their ids, because this process may have another clock than the store. */
export class LogEnd {
  readonly #admin: Admin;
  readonly #since: Date;
  readonly #earlier: ReadonlySet<string>;

  private constructor(admin: Admin, since: Date, earlier: ReadonlySet<string>) {
    this.#admin = admin;
    this.#since = since;
    this.#earlier = earlier;
  }

  static async read(admin: Admin): Promise<LogEnd> {
    let since: Date | undefined;
    const earlier = new Set<string>();
    for await (const { id, at } of admin.log()) {
      since ??= new Date(at.getTime() - UNORDERED_MS);
      if (at < since) break;
      earlier.add(id);
    }
    return new LogEnd(admin, since ?? new Date(0), earlier);
  }

  /**
   * The ids of the entries that a change wrote. Empty if other changes cannot be told apart, such as the same change made twice at once,
   * because the undo of another change would be worse than none.
   */
  async idsOf(written: readonly Written[], { by, reason }: Note): Promise<string[]> {
    const ids: string[] = [];
    if (written.length === 0) return ids;
    const actions = [...new Set(written.map(({ action }) => action))];
    for await (const entry of this.#admin.log({ since: this.#since, by, actions }))
      if (
        !this.#earlier.has(entry.id) &&
        entry.reason === reason &&
        written.some((each) => isOf(entry, each))
      )
        ids.push(entry.id);
    return ids.length > written.length ? [] : ids;
  }
}

/** The entries of bans, or of their ends. An end of nothing wrote none. */
export function banEntries(results: readonly (BanResult | UnbanResult)[]): Written[] {
  return results.filter(hasEffect).map((result) => {
    const { name, given, keys, dimension } = result;
    const key = keys.length === 1 ? keys[0] : given;
    return { action: 'until' in result ? 'ban' : 'unban', name, key, dimension, keys: keys.length };
  });
}

const hasEffect = (result: BanResult | UnbanResult): boolean =>
  'until' in result || result.banned + (result.denials ?? 0) + (result.lastBanMs ?? 0) > 0;

/** The entries of overrides, or of their ends. */
export function overrideEntries(results: readonly OverrideResult[]): Written[] {
  return results
    .filter(({ override, replaced }) => override !== undefined || replaced)
    .map(({ name, key, dimension, override }) => {
      const action = override === undefined ? 'remove' : 'override';
      return { action, name, key, dimension };
    });
}

/** The dimension that entries do not name. */
const DEFAULT_DIMENSION = 'key';

function isOf(entry: LoggedChange, { action, name, key, dimension, keys = 1 }: Written): boolean {
  if (entry.action !== action || entry.within !== undefined || !isSame(entry.name, name)) return false;
  if (keys === 'unknown') return true;
  if (entry.keys !== keys) return false;
  // The entry of a network has no dimension, and if keys are hashed, no network.
  if (keys > 1) return entry.network === undefined || entry.network === key;
  if (key === undefined) return entry.key === undefined;
  return (
    isSame(entry.key, key) && (entry.dimension ?? DEFAULT_DIMENSION) === (dimension ?? DEFAULT_DIMENSION)
  );
}

/** Whether a name or a key of an entry may be this one. Of some, the log has only the hash. */
const isSame = (logged: LoggedChange['key'], text: LoggedChange['key']): boolean =>
  typeof logged === 'object' || typeof text === 'object' || logged === text;
