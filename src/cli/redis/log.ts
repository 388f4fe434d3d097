import { limitOf, type Options } from '../command.js';
import { writeListing, type Listing } from '../format.js';
import { warn, type Io } from '../io.js';
import { unknownScope } from '../scope.js';
import { whoseOf, type Whose } from '../keys.js';
import { Published } from './published.js';
import { withRedis, type Session } from './session.js';

/** An entry of a log of changes by hand, as it is shown. */
export type Logged<T> = Omit<T, 'who'> & { readonly at: string; readonly whose: Whose };

/** The number of entries that are read at a time. */
const BATCH_SIZE = 500;

/** Shows a log of changes by hand, of one limiter or of all. The newest entry comes first. */
export async function showLog<T extends { readonly who: string }>(
  options: Options,
  io: Io,
  logOf: (prefix: string) => string,
  listing: Listing<Logged<T>>,
): Promise<void> {
  const { name } = options;
  await withRedis(options, io, async (session) => {
    if (name !== undefined) warn(io, unknownScope(await Published.read(session, io), name));
    await writeListing(io, limitOf(options, io), entries<T>(session, logOf(session.prefix), name), listing);
  });
}

async function* entries<T extends { readonly who: string }>(
  session: Session,
  log: string,
  name: string | undefined,
): AsyncGenerator<Logged<T>> {
  let end = '+';
  for (;;) {
    const page = await session.call('XREVRANGE', log, end, '-', 'COUNT', String(BATCH_SIZE));
    const found = page as [id: string, fields: string[]][];
    for (const [id, [, text]] of found) {
      const { who, ...entry } = JSON.parse(text!) as T;
      const whose = whoseOf(who, name);
      if (whose) yield { at: new Date(Number(id.split('-')[0])).toISOString(), ...entry, whose };
    }
    if (found.length < BATCH_SIZE) return;
    // Redis 6.0 knows no exclusive ranges.
    const [ms, n] = found.at(-1)![0].split('-').map(Number) as [number, number];
    end = n === 0 ? String(ms - 1) : `${ms}-${n - 1}`;
  }
}
