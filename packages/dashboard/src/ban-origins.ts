import {
  DEFAULT_DIMENSION,
  isInNetwork,
  type Admin,
  type BannedKey,
  type BanOrigin as Origin,
  type LoggedChange,
} from 'headgate/admin';
import { Turns } from './turns.js';

/** The newest changes among which the origins of bans are searched. */
const SCANNED = 2_000;

/** The most readings of the log that wait. */
const MAX_WAITING = 20;

type BanOrigin = Omit<Origin, 'action'>;

type Ban = Omit<BannedKey, 'kind' | 'bannedForMs' | 'bannedUntil'>;

/** Finds the origins of bans in the log, for bans whose operator the store does not have. */
export class BanOrigins {
  readonly #admin: Admin;
  readonly #turns = new Turns(MAX_WAITING);

  constructor(admin: Admin) {
    this.#admin = admin;
  }

  /** The origin of each ban. Null if the ban has an operator or a reason, or if the log has no such change. */
  async of(bans: readonly Ban[]): Promise<readonly (BanOrigin | null)[]> {
    const open = bans.filter(({ by, reason }) => by === null && reason === null);
    if (open.length === 0) return bans.map(() => null);
    const read = (): Promise<(Origin | null)[]> => this.#admin.banOrigins(open, { changes: SCANNED });
    // A log that cannot be read only costs the origins.
    const origins = await this.#turns.run(read).catch(() => []);
    const found = new Map(open.map((ban, i) => [ban, origins[i]]));
    return bans.map((ban) => {
      const { action: _, ...origin } = found.get(ban) ?? {};
      return 'from' in origin ? origin : null;
    });
  }
}

/** Whether a change is of a key: alone, in a network, or in an import with its keys. */
export function isOfKey(
  { name, key, dimension, network, imported, within }: LoggedChange,
  whose: Pick<BannedKey, 'name' | 'key' | 'dimension' | 'within'>,
): boolean {
  if (!isSame(name, whose.name) || within !== whose.within) return false;
  const isSameBy = (by = DEFAULT_DIMENSION): boolean => by === (whose.dimension ?? DEFAULT_DIMENSION);
  if (imported) return imported.some((each) => isSame(each.key, whose.key) && isSameBy(each.dimension));
  if (!isSameBy(dimension)) return false;
  if (network === undefined) return isSame(key, whose.key);
  return network === whose.key || (typeof whose.key === 'string' && isInNetwork(whose.key, network));
}

/** Whether two names or keys are the same. Of some, only the hash is known. */
const isSame = (one: BannedKey['key'] | undefined, other: BannedKey['key']): boolean =>
  typeof one === 'string' || typeof other === 'string' ? one === other : one?.hash === other.hash;
