import { isInNetwork, type Admin, type BannedKey, type LoggedChange } from 'headgate/admin';
import { Cached } from './cached.js';

/** The newest changes among which the origins of bans are searched, and the age of these changes, ms. */
const SCANNED = 2_000;
const LOG_MS = 10_000;

/** The dimension that bans and changes do not name. */
const DEFAULT_DIMENSION = 'key';

/** The origin of a ban: a limiter that bans by denials, a program, or an operator; and the reason. */
export type BanOrigin = Pick<LoggedChange, 'from' | 'by' | 'reason'>;

type Whose = Pick<BannedKey, 'name' | 'key' | 'dimension' | 'within'>;

/** Finds the origins of bans in the log, for bans whose operator the store does not have. */
export class BanOrigins {
  readonly #changes: Cached<readonly LoggedChange[]>;

  constructor(admin: Admin) {
    this.#changes = new Cached(LOG_MS, async (): Promise<readonly LoggedChange[]> => {
      const changes: LoggedChange[] = [];
      let scanned = 0;
      for await (const change of admin.log({ withKeys: true })) {
        if (isOfBans(change)) changes.push(change);
        if (++scanned === SCANNED) break;
      }
      return changes;
    });
  }

  /** The origin of each ban. Null if the ban has an operator or a reason, or if the log has no such change. */
  async of(bans: readonly BannedKey[]): Promise<readonly (BanOrigin | null)[]> {
    const isOpen = ({ by, reason }: BannedKey): boolean => by === null && reason === null;
    if (!bans.some(isOpen)) return bans.map(() => null);
    // A log that cannot be read only costs the origins.
    const changes = await this.#changes.get().catch(() => []);
    return bans.map((ban) => (isOpen(ban) ? originOf(ban, changes) : null));
  }

  /** Makes the next reading show a change that was made just now. */
  expire(): void {
    this.#changes.expire();
  }
}

const isOfBans = ({ action, undoneBy }: LoggedChange): boolean =>
  ['ban', 'unban', 'import'].includes(action) && undoneBy === undefined;

/** The origin of the newest ban of a key. @param changes the newest first */
export function originOf(whose: Whose, changes: readonly LoggedChange[]): BanOrigin | null {
  const newest = changes.find((change) => isOfBans(change) && isOfKey(change, whose));
  if (!newest || newest.action === 'unban') return null;
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
  if (network !== undefined)
    return network === whose.key || (typeof whose.key === 'string' && isInNetwork(whose.key, network));
  return isSame(key, whose.key) && isSameBy(dimension, whose);
}

const isSameBy = (dimension = DEFAULT_DIMENSION, whose: Whose): boolean =>
  dimension === (whose.dimension ?? DEFAULT_DIMENSION);

/** Whether two names or keys are the same. Of some, only the hash is known. */
const isSame = (one: Whose['key'] | undefined, other: Whose['key']): boolean =>
  typeof one === 'string' || typeof other === 'string' ? one === other : one?.hash === other.hash;
