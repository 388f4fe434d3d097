import { type Admin, DEFAULT_DIMENSION, type KeyView, type LoggedChange } from 'headgate/admin';
import { noteText, printable } from './format.js';

/** A ban as a view has it, with the note of an operator. */
interface Ban extends Pick<LoggedChange, 'key' | 'dimension' | 'within'> {
  readonly name: LoggedChange['name'];
  readonly by: string | null;
  readonly reason: string | null;
}

/** The author of a ban that neither has a note nor is in the log. */
const UNKNOWN = 'unknown: automatic, an import, or your code';

/** Finds the authors of bans. Bans without a note are looked up in the log, which is read once, and only as far as needed. */
export class BanAuthors {
  readonly #changes: AsyncIterator<LoggedChange>;
  /** The newest change of each key so far, if it is of the key alone or of an import. */
  readonly #newest = new Map<string, LoggedChange>();
  /** The limiters with an import whose keys the log does not have. Such an import may have banned any key whose newest change is older. */
  readonly #keyless = new Set<string>();

  /** @param name the limiter of all bans, if they have the same */
  constructor(admin: Admin, name?: string) {
    const actions = ['ban', 'unban', 'import'] as const;
    this.#changes = admin.log({ name, actions, withKeys: true })[Symbol.asyncIterator]();
  }

  /** The author and the reason, such as `ada: scraping`, or `denials: denied by policy hour`. */
  async of(ban: Ban): Promise<string> {
    if (ban.by !== null || ban.reason !== null) return noteText(ban.by, ban.reason);
    // A user without permission for the log still gets the ban.
    const change = await this.#changeOf(ban).catch(() => undefined);
    // The log does not have the note of each ban of an import.
    if (change?.action !== 'ban') return UNKNOWN;
    const { from, reason } = change;
    if (from === 'program') return 'the program';
    if (from !== 'denials') return 'an operator without a name';
    return reason === null ? 'denials' : `denials: ${printable(reason)}`;
  }

  /** The same behind the word "banned": ` by ada: a mistake`. */
  async behind(ban: Ban): Promise<string> {
    const text = await this.of(ban);
    if (text === UNKNOWN) return `, author ${text}`;
    return ban.by === null && ban.reason !== null ? `: ${text}` : ` by ${text}`;
  }

  /** The newest change of the key of a ban, or `undefined` if it is not known. */
  async #changeOf(ban: Ban): Promise<LoggedChange | undefined> {
    const [id, limiter] = [idOf(ban), JSON.stringify(ban.name)];
    while (!this.#newest.has(id) && !this.#keyless.has(limiter)) {
      const next = await this.#changes.next();
      if (next.done) break;
      this.#take(next.value);
    }
    return this.#newest.get(id);
  }

  #take(change: LoggedChange): void {
    const { name, action, keys, imported, undoneBy, undoes } = change;
    const limiter = JSON.stringify(name);
    // An undo restores the state of an earlier change.
    if (undoneBy !== undefined || undoes !== undefined || this.#keyless.has(limiter)) return;
    if (action === 'import' && keys !== 1 && !imported) this.#keyless.add(limiter);
    for (const whose of imported ?? [change]) {
      const id = idOf({ ...whose, name });
      if (!this.#newest.has(id)) this.#newest.set(id, change);
    }
  }
}

/** The author of the ban in a view, behind the word "banned". */
export const authorOf = (
  admin: Admin,
  { name, key, dimension, bannedBy: by, banReason: reason }: KeyView,
): Promise<string> => new BanAuthors(admin, name).behind({ name, key, dimension, by, reason });

const idOf = ({
  name,
  key,
  dimension = DEFAULT_DIMENSION,
  within,
}: Pick<Ban, 'name' | 'key' | 'dimension' | 'within'>): string =>
  JSON.stringify([name, dimension, key, within]);
