import { KeyMaker, recordKey } from '../stores/keys.js';
import { overrideBookKeys } from '../stores/redis/operators/override-book.js';
import type { Options } from './command.js';
import { usageError } from './errors.js';
import type { Io } from './io.js';
import { Bans } from './redis/bans.js';
import { Finder } from './redis/finds.js';
import { Published } from './redis/published.js';
import { NO_KEY, withRedis, type Session } from './redis/session.js';
import { withFile } from './sqlite/file.js';
import { setOf, type State } from './state.js';

/** Opens the state that the options name, and closes it when `use` has ended. @throws as `withRedis` and `withFile` */
export async function withState(
  options: Options,
  io: Io,
  use: (state: State) => Promise<void>,
): Promise<void> {
  const { sqlite, redis, cluster, sentinel } = options;
  if (sqlite === undefined) {
    await withRedis(options, io, async (session) => use(stateOf(session, await Published.read(session, io))));
    return;
  }
  if (redis !== undefined || cluster || sentinel !== undefined)
    throw usageError(
      '--sqlite: it names a file, and --redis, --cluster and --sentinel a server. Write one of them.',
    );
  await withFile({ ...options, sqlite }, io, use);
}

function stateOf(session: Session, published: Published): State {
  return {
    redis: session,
    keyText: session.hashing.text,
    published,
    bans: new Bans(session),
    ...session.limiters,
    finder: (wanted) => new Finder(session, wanted),
    stored: async (name, policies, key, dimension) => {
      const keys: string[] = [];
      const set = setOf(name, policies, dimension, session.target.timeout);
      new KeyMaker(session.prefix, set, session.hashing.text).push(keys, key);
      const ttls = await Promise.all(keys.map((each) => session.call('PTTL', each)));
      return ttls.map((ttl) => Number(ttl) !== NO_KEY);
    },
    overrides: (isWanted) => recordsOf(session, isWanted),
  };
}

/** The number of records that are read at a time. */
const BATCH_SIZE = 200;

async function* recordsOf(session: Session, isWanted: (who: string) => boolean) {
  const [index] = overrideBookKeys(session.prefix);
  const all = (await session.call('ZRANGEBYSCORE', index, String(Date.now() - 60_000), '+inf')) as string[];
  const wanted = all.filter(isWanted);
  for (let at = 0; at < wanted.length; at += BATCH_SIZE) {
    const some = wanted.slice(at, at + BATCH_SIZE);
    const records = await Promise.all(some.map((who) => session.call('GET', recordKey(session.prefix, who))));
    yield* some.map((who, i) => [who, records[i]] as const);
  }
}
