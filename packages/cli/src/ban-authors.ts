import type { Admin, BanOrigin, KeyView, WhoseKey } from 'headgate/admin';
import { noteText, printable } from './format.js';
import type { Io } from './io.js';
import { optional } from './optional.js';

/** A ban as a view has it, with the note of an operator. */
interface Ban extends WhoseKey {
  readonly by: string | null;
  readonly reason: string | null;
}

/** The author of a ban that neither has a note nor is in the log. */
const UNKNOWN = 'unknown: automatic, an import, or your code';

/** The author and the reason of each ban, such as `ada: scraping`, or `denials: denied by policy hour`. */
export async function authorsOf(admin: Admin, bans: readonly Ban[], io: Io): Promise<string[]> {
  const origins = await originsOf(admin, bans, io);
  return bans.map((ban, i) => (isOpen(ban) ? originText(origins[i]) : noteText(ban.by, ban.reason)));
}

/** For each ban without an operator and a reason, its origin by the log. */
export async function originsOf(
  admin: Admin,
  bans: readonly Ban[],
  io: Io,
): Promise<(BanOrigin | null | undefined)[]> {
  const open = bans.filter(isOpen);
  if (open.length === 0) return bans.map(() => undefined);
  const origins = (await optional(admin.banOrigins(open), 'the log of bans', io)) ?? [];
  const found = new Map(open.map((ban, i) => [ban, origins[i]]));
  return bans.map((ban) => found.get(ban));
}

const isOpen = ({ by, reason }: Ban): boolean => by === null && reason === null;

function originText(origin: BanOrigin | null | undefined): string {
  if (!origin) return UNKNOWN;
  const { action, from, by, reason } = origin;
  if (from === 'denials') return reason === null ? 'denials' : `denials: ${printable(reason)}`;
  if (by !== null || reason !== null) return noteText(by, reason);
  // An import without an operator may have bans by denials.
  if (action === 'import') return UNKNOWN;
  return from === 'program' ? 'the program' : 'an operator without a name';
}

/** The authors of the bans in views, behind the word "banned": ` by ada: a mistake`. */
export async function authorsIn(
  admin: Admin,
  views: readonly KeyView[],
  io: Io,
): Promise<ReadonlyMap<KeyView, string>> {
  const banned = views.filter(({ bannedForMs }) => bannedForMs > 0);
  const bans = banned.map((view) => ({ ...view, by: view.bannedBy, reason: view.banReason }));
  const authors = await authorsOf(admin, bans, io);
  return new Map(
    authors.map((text, i) => {
      const { by, reason } = bans[i]!;
      const behind =
        text === UNKNOWN ? `, author ${text}` : by === null && reason !== null ? `: ${text}` : ` by ${text}`;
      return [banned[i]!, behind];
    }),
  );
}
