import type { Announcement } from '../../contract/announcement.js';
import { compileBan } from '../../features/bans/contract/ban-options.js';
import type { ChangeNote } from '../../contract/change-note.js';
import { dimensionsOf } from '../../contract/dimensions.js';
import type { MaybePromise, PolicySet, Store } from '../../contract/store.js';
import { banSummary, strikesIn, type BanSummary, type Strikes } from '../../features/bans/saved-ban.js';
import { wake } from '../../limiter/waiting/wake-ups.js';
import type { JournalEntry, ListedChange } from '../../stores/journal.js';
import { whoseState, type FoundKey, type Owner } from '../owners.js';
import { hashOnly } from '../typed-keys.js';
import { NewestOrigins } from './ban-origin-search.js';

interface BanState extends Strikes {
  /** The remaining time of the ban, ms, or 0 if the key is not banned. */
  readonly bannedForMs: number;
}

/** The length of a ban that ends, while the denials and the growth of bans stay. */
export const END_ONLY = -1;

export interface BanChange {
  readonly owner: Owner;
  /** The length of the ban, ms. 0 ends the ban and forgives, and {@link END_ONLY} only ends the ban. */
  readonly duration: number;
  /** The new note. Absent to keep the earlier note. */
  readonly note?: ChangeNote | undefined;
}

export interface BanSource {
  /** Pages of bans that an index names. Some may have ended, and others may be missing. Absent without an index. */
  recorded?(name: string | undefined): AsyncIterable<readonly FoundKey[]>;
  /** The remaining time of each owner's ban, ms, or 0; or the error of state that cannot be read. */
  lefts(owners: readonly Owner[]): Promise<(number | Error)[]>;
  stateOf(owner: Owner): Promise<BanState>;
  /** The operator and the reason of each ban by hand. Null for all other bans. */
  notesOf(owners: readonly Owner[]): Promise<(ChangeNote | null)[]>;
  /** Changes bans, and logs the changes as one. @returns the reason why the change could not be recorded, or `undefined` */
  set(changes: readonly BanChange[], logged?: JournalEntry): Promise<string | undefined>;
}

/** The options of bans by hand if those of the service are unknown. The longest spans do not shorten the service's memory of denials and bans. */
export const LENIENT = compileBan({ within: '366d', max: '366d' });

/** A set without policies that bans by a dimension. @param ban the options of a limiter in this process, if there is one */
export function banSet(name: string, by: string, timeout: number, ban = LENIENT): PolicySet {
  const dimensions = dimensionsOf([], ban, { banBy: by, slotBy: undefined, acrossSlots: false });
  return { name, policies: [], ban, dimensions, timeout };
}

/** The parts of a state whose rows have the whole state of a key. */
interface LocalParts {
  readonly store: Store;
  readonly announced: ReadonlySet<Announcement>;
  readonly timeout: number;
  readonly log: {
    add(change: JournalEntry): Promise<unknown>;
    since(time: number): AsyncIterable<ListedChange>;
  };
  now(): MaybePromise<number>;
  rowsOf(owners: readonly Owner[]): MaybePromise<readonly ({ readonly state: BanSummary } | undefined)[]>;
}

/** The bans in memory, in a file, or in a table. */
export function localBans(parts: LocalParts): BanSource {
  async function lefts(owners: readonly Owner[]): Promise<number[]> {
    const time = await parts.now();
    const rows = await parts.rowsOf(owners);
    return rows.map((row) => Math.max(0, (row?.state.bannedUntil ?? 0) - time));
  }

  return {
    lefts,
    notesOf: (owners) => notesIn(parts.log.since(0), owners),
    async stateOf(owner) {
      const [[bannedForMs = 0], [row]] = [await lefts([owner]), await parts.rowsOf([owner])];
      return { bannedForMs, ...strikesIn(row?.state ?? banSummary([]), await parts.now()) };
    },
    async set(changes, logged) {
      const started = performance.now();
      const bans = changes.map(async ({ owner: { name, key, by }, duration }) => {
        if (typeof name !== 'string' || typeof key !== 'string') throw hashOnly();
        const own = [...parts.announced].find((limiter) => limiter.name === name && limiter.ban)?.ban;
        const subject = { set: banSet(name, by, parts.timeout, own), key };
        await parts.store.ban(subject, duration, undefined, false);
        wake(name, subject);
      });
      await Promise.all(bans);
      if (logged) await parts.log.add(entryAfter(logged, started));
      return undefined;
    },
  };
}

/** The longest change, ms, to count as a single moment at which all bans began: less than `SAME_END_MS`. */
const SHORT_MS = 500;

/**
 * The log entry of a change that was just made. A long change has the time that it took, because its bans began one after the other.
 *
 * @param started the time by `performance.now()`
 */
export function entryAfter(entry: JournalEntry, started: number): JournalEntry {
  const tookMs = Math.ceil(performance.now() - started);
  return tookMs > SHORT_MS ? { ...entry, tookMs } : entry;
}

/** The operators' notes on the last logged bans. Null for a ban by denials, and if the log does not have the key, as of a large import. */
export async function notesIn(
  entries: AsyncIterable<ListedChange>,
  owners: readonly Owner[],
): Promise<(ChangeNote | null)[]> {
  const wanted = owners.map((owner) => ({ ...whoseState(owner), text: owner.text }));
  const newest = new NewestOrigins(wanted, false);
  await newest.read(entries);
  return wanted.map((ban) => {
    const { from, by = null, reason = null } = newest.of(ban) ?? {};
    // The reason of a ban by denials is not a note of an operator.
    return from !== 'denials' && (by ?? reason) !== null ? { by, reason } : null;
  });
}
