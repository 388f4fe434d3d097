import { isInNetwork, type Admin, type BannedKey, type LoggedChange } from 'headgate/admin';
import { Cached } from './cached.js';
import { Turns } from './turns.js';

/** The newest changes among which the origins of bans are searched, and the age of these changes, ms. */
const SCANNED = 2_000;
const LOG_MS = 10_000;

/** The most readings of the log that wait. */
const MAX_WAITING = 20;

/** The dimension that bans and changes do not name. */
const DEFAULT_DIMENSION = 'key';

/**
 * The origin of a ban: a limiter that bans by denials, a program, or an operator; and the reason. `unknown`: the ban may be of an import
 * whose keys the log does not have.
 */
export interface BanOrigin extends Pick<LoggedChange, 'by' | 'reason'> {
  readonly from: LoggedChange['from'] | 'unknown';
}

type Whose = Pick<BannedKey, 'name' | 'key' | 'dimension' | 'within'>;

/** Finds the origins of bans in the log, for bans whose operator the store does not have. */
export class BanOrigins {
  readonly #admin: Admin;
  readonly #turns = new Turns(MAX_WAITING);
  /** Without the keys of imports, which can be very many. */
  readonly #changes = new Cached(LOG_MS, () => this.#read(false));

  constructor(admin: Admin) {
    this.#admin = admin;
  }

  /** The origin of each ban. Null if the ban has an operator or a reason, or if the log has no such change. */
  async of(bans: readonly BannedKey[]): Promise<readonly (BanOrigin | null)[]> {
    const open = bans.filter(isOpen);
    if (open.length === 0) return bans.map(() => null);
    // A log that cannot be read only costs the origins.
    const changes = await this.#changesFor(open).catch(() => []);
    return bans.map((ban) => (isOpen(ban) ? originOf(ban, changes) : null));
  }

  async #changesFor(bans: readonly BannedKey[]): Promise<readonly LoggedChange[]> {
    const changes = await this.#changes.get();
    const areImports = bans.some((ban) => newestOf(ban, changes)?.action === 'import');
    return areImports ? this.#turns.run(() => this.#read(bans)) : changes;
  }

  async #read(withKeys: false | readonly BannedKey[]): Promise<readonly LoggedChange[]> {
    const changes: LoggedChange[] = [];
    let scanned = 0;
    for await (const change of this.#admin.log({ withKeys })) {
      if (isOfBans(change)) changes.push(change);
      if (++scanned === SCANNED) break;
    }
    return changes;
  }

  /** Makes the next reading show a change that was made just now. */
  expire(): void {
    this.#changes.expire();
  }
}

const isOpen = ({ by, reason }: BannedKey): boolean => by === null && reason === null;

const isOfBans = ({ action, undoneBy }: LoggedChange): boolean =>
  ['ban', 'unban', 'import'].includes(action) && undoneBy === undefined;

/** Whether a change is an import without its keys, which may have banned any key of the limiter. */
export const isKeyless = ({ action, key, imported }: LoggedChange): boolean =>
  action === 'import' && key === undefined && imported === undefined;

/** The newest change that is a ban of a key, or the end of one, or may be. @param changes the newest first */
function newestOf(whose: Whose, changes: readonly LoggedChange[]): LoggedChange | undefined {
  const isOfLimiter = ({ name }: LoggedChange): boolean =>
    whose.within === undefined && isSame(name, whose.name);
  return changes.find(
    (change) => isOfBans(change) && (isKeyless(change) ? isOfLimiter(change) : isOfKey(change, whose)),
  );
}

/** The origin of the newest ban of a key. @param changes the newest first */
export function originOf(whose: Whose, changes: readonly LoggedChange[]): BanOrigin | null {
  const newest = newestOf(whose, changes);
  if (!newest || newest.action === 'unban') return null;
  if (isKeyless(newest)) return { from: 'unknown', by: null, reason: null };
  const { from, by, reason } = newest;
  return { from, by, reason };
}

/** Whether a change is of a key: alone, in a network, or in an import with its keys. */
export function isOfKey(
  { name, key, dimension, network, imported, within }: LoggedChange,
  whose: Whose,
): boolean {
  if (!isSame(name, whose.name) || within !== whose.within) return false;
  if (imported)
    return imported.some((each) => isSame(each.key, whose.key) && isSameBy(each.dimension, whose));
  if (!isSameBy(dimension, whose)) return false;
  if (network === undefined) return isSame(key, whose.key);
  return network === whose.key || (typeof whose.key === 'string' && isInNetwork(whose.key, network));
}

const isSameBy = (dimension = DEFAULT_DIMENSION, whose: Whose): boolean =>
  dimension === (whose.dimension ?? DEFAULT_DIMENSION);

/** Whether two names or keys are the same. Of some, only the hash is known. */
const isSame = (one: Whose['key'] | undefined, other: Whose['key']): boolean =>
  typeof one === 'string' || typeof other === 'string' ? one === other : one?.hash === other.hash;
