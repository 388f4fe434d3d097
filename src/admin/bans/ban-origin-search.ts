import type { ChangeNote } from '../../contract/change-note.js';
import { escapeScope } from '../../stores/keys.js';
import type { JournalEntry, ListedChange } from '../../stores/journal.js';
import { importedIn, isInNetwork, networkIn } from '../entry-keys.js';
import { nextTurn } from '../next-turn.js';
import { identityOf, whoseOf, type WhoseKey } from '../owners.js';
import { Undos } from '../undos.js';

/** The newest change in the log that banned a key, with the operator and the reason. */
export interface BanOrigin extends ChangeNote {
  /** The kind of the change. */
  readonly action: 'ban' | 'import';
  /**
   * `denials`: a ban by denials, whose reason names the policy. `program`: `limiter.ban`. `admin` and `cli`: `headgate/admin`, and the command
   * line. `unknown`: the newest change may be an import whose keys the log does not have.
   */
  readonly from: JournalEntry['from'] | 'unknown';
}

/** A ban whose origin is looked for. */
export interface WantedBan extends WhoseKey {
  /** The owner text. */
  readonly text: string;
}

const OF_BANS: readonly JournalEntry['action'][] = ['ban', 'unban', 'import'];

const UNKNOWN: BanOrigin = { action: 'import', from: 'unknown', by: null, reason: null };

/** The keys of imports that are compared before other requests have a turn. Each change counts as several. */
const STEP = 20_000;
const KEYS_OF_CHANGE = 50;

/**
 * Finds the newest change of each ban in a log. Changes that were undone do not count, and neither do undos, which restore the ban before.
 * Owner texts are compared without parsing, because imports can have very many.
 */
export class NewestOrigins {
  /** The bans whose origin is not known yet. */
  readonly #open: Map<string, WantedBan>;
  /** The origins by the ids of bans. Null after the end of a ban. */
  readonly #found = new Map<string, BanOrigin | null>();
  readonly #takesKeyless: boolean;

  /** @param takesKeyless whether an import whose keys the log does not have counts as one of all keys of its limiter */
  constructor(wanted: readonly WantedBan[], takesKeyless: boolean) {
    this.#open = new Map(wanted.map((ban) => [identityOfBan(ban), ban]));
    this.#takesKeyless = takesKeyless;
  }

  of(ban: WantedBan): BanOrigin | null {
    return this.#found.get(identityOfBan(ban)) ?? null;
  }

  /** Reads a log, the newest change first, until the origins of all bans are known. @param most the most changes to read */
  async read(entries: AsyncIterable<ListedChange>, most = Infinity): Promise<void> {
    if (this.#open.size === 0) return;
    const undos = new Undos();
    let [count, compared] = [0, 0];
    for await (const change of entries) {
      const isUndone = undos.of(change) !== undefined;
      if (!isUndone && change.undoes === undefined && OF_BANS.includes(change.action)) this.#take(change);
      if (this.#open.size === 0 || ++count === most) return;
      compared += KEYS_OF_CHANGE + (importedIn(change)?.length ?? 0);
      if (compared < STEP) continue;
      compared = 0;
      await nextTurn();
    }
  }

  #take(change: ListedChange): void {
    const { action, who, keys, from, by, reason } = change;
    const originOf = ({ by, reason }: ChangeNote): BanOrigin | null =>
      action === 'unban' ? null : { action: action as BanOrigin['action'], from, by, reason };
    const imported = importedIn(change);
    if (imported)
      for (const [each, , , note = { by, reason }] of imported)
        this.#find(this.#wanted(each), originOf(note));
    else if (keys === 1) this.#find(this.#wanted(who), originOf(change));
    else {
      const network = networkIn(change);
      if (network !== undefined) this.#findIn(network, who, originOf(change));
      else if (action === 'import' && this.#takesKeyless) this.#findAll(who, UNKNOWN);
    }
  }

  /** The ban of a logged key. The log names the limiter of a key of which a file has only one hash. */
  #wanted(who: string): WantedBan | undefined {
    const found = this.#open.get(who);
    if (found) return found;
    const whose = who.includes('}') && whoseOf(who, undefined);
    if (whose) return this.#open.get(identityOf(whose));
    return who.includes(':%#') ? this.#open.get(who.replace(/^[^:]*:(?=%#)/, '')) : undefined;
  }

  #findIn(network: string, who: string, origin: BanOrigin | null): void {
    const dimension = whoseOf(who, undefined)?.dimension;
    for (const ban of this.#open.values())
      if (
        ban.dimension === dimension &&
        isOfLimiter(ban, who) &&
        (ban.key === network || (typeof ban.key === 'string' && isInNetwork(ban.key, network)))
      )
        this.#find(ban, origin);
  }

  #findAll(who: string, origin: BanOrigin): void {
    for (const ban of this.#open.values()) if (isOfLimiter(ban, who)) this.#find(ban, origin);
  }

  #find(ban: WantedBan | undefined, origin: BanOrigin | null): void {
    if (!ban) return;
    this.#open.delete(identityOfBan(ban));
    this.#found.set(identityOfBan(ban), origin);
  }
}

/** The owner text; or the parts of a key within another one, because a list of bans lacks the owner text. */
const identityOfBan = (ban: WantedBan): string => (ban.within === undefined ? ban.text : identityOf(ban));

/** Whether a ban is one of the limiter of a logged change, and not of a key within another one, which neither networks nor imports have. */
const isOfLimiter = ({ name, within }: WantedBan, who: string): boolean =>
  within === undefined && escapeScope(name) === who.slice(0, who.indexOf(':'));
