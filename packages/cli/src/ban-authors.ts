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

/** Finds the authors of bans. Bans without a note are looked up in the log, which is read once, and only for such a ban. */
export class BanAuthors {
  readonly #admin: Admin;
  readonly #asked: { readonly name?: string | undefined; readonly key?: string };
  #logged: Promise<ReadonlyMap<string, LoggedChange>> | undefined;

  /** @param asked the limiter and the key of all bans, if they have the same */
  constructor(admin: Admin, asked: { readonly name?: string | undefined; readonly key?: string }) {
    this.#admin = admin;
    this.#asked = asked;
  }

  /** The author and the reason, such as `ada: scraping`, or `denials: denied by policy hour`. */
  async of(ban: Ban): Promise<string> {
    if (ban.by !== null || ban.reason !== null) return noteText(ban.by, ban.reason);
    // A user without permission for the log still gets the ban.
    this.#logged ??= this.#read().catch(() => new Map<string, never>());
    const change = (await this.#logged).get(idOf(ban));
    if (!change) return UNKNOWN;
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

  /** The newest change of each key, if it is a ban of the key alone. */
  async #read(): Promise<ReadonlyMap<string, LoggedChange>> {
    const newest = new Map<string, LoggedChange>();
    for await (const change of this.#admin.log({ ...this.#asked, actions: ['ban', 'unban'] })) {
      // An undo restores the state of an earlier change.
      if (change.undoneBy !== undefined || change.undoes !== undefined) continue;
      const id = idOf(change);
      if (!newest.has(id)) newest.set(id, change);
    }
    for (const [id, { action }] of newest) if (action === 'unban') newest.delete(id);
    return newest;
  }
}

/** The author of the ban in a view, behind the word "banned". */
export const authorOf = (
  admin: Admin,
  { name, key, dimension, bannedBy: by, banReason: reason }: KeyView,
): Promise<string> => new BanAuthors(admin, { name, key }).behind({ name, key, dimension, by, reason });

const idOf = ({
  name,
  key,
  dimension = DEFAULT_DIMENSION,
  within,
}: Pick<Ban, 'name' | 'key' | 'dimension' | 'within'>): string =>
  JSON.stringify([name, dimension, key, within]);
