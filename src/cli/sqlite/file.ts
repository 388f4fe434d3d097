import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { toMilliseconds } from '../../common/duration.js';
import { compileBan } from '../../contract/ban-options.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Store, Subject } from '../../contract/store.js';
import { ALL_KEYS, escapeKey, escapeName, escapeScope, keyTextOf, parseStateKey } from '../../stores/keys.js';
import {
  APPLICATION_ID,
  nodeDatabase,
  type SqliteDatabase,
  type SqliteStatement,
} from '../../stores/sqlite/database.js';
import { sqliteStore } from '../../stores/sqlite/sqlite.js';
import { nameBy } from '../../stores/state/hashed-names.js';
import { stateKeys, summaryOf, type StateSummary } from '../../stores/state/key-state.js';
import { CliError, failure, usageError } from '../errors.js';
import type { Io } from '../io.js';
import type { Options } from '../command.js';
import { limitersOn } from '../limiters.js';
import { Published } from '../redis/published.js';
import { LENIENT, secretOf } from '../redis/session.js';
import { setOf, type State } from '../state.js';
import { fileFinder, type Row } from './finds.js';

/** The number of rows that are read at a time. */
const BATCH_SIZE = 500;

/** A database of either driver. */
interface Open extends SqliteDatabase {
  prepare(sql: string): SqliteStatement & { all(...values: (string | number)[]): unknown[] };
}

/** The state in a file of SQLite. Limiters do not publish themselves in a file, and bans by hand have no notes. */
function stateIn(database: Open, secret: string | undefined, timeout: number): State {
  const store = sqliteStore(database, secret === undefined ? {} : { hashKeys: secret });
  const limiters = limitersOn(() => store, timeout);
  const nameOf = nameBy('sqliteStore.hashKeys', secret ?? false);

  /** Reads the row of a key. */
  function read(subject: Subject): StateSummary {
    const [written = ''] = stateKeys(subject);
    const sql = 'SELECT state FROM headgate WHERE key = ?';
    const [row] = database.prepare(sql).all(nameOf(written)) as { state: Uint8Array }[];
    return summaryOf(row?.state);
  }

  /** All rows in the order of their keys. Other processes may write in the meantime. */
  async function* rows(): AsyncGenerator<Row> {
    const some = database.prepare('SELECT key, state FROM headgate WHERE key > ? ORDER BY key LIMIT ?');
    for (let last = ''; ;) {
      const page = some.all(last, BATCH_SIZE) as { key: string; state: Uint8Array }[];
      for (const { key, state } of page)
        yield { ...summaryOf(state), whose: parseStateKey('x', `x:${key}`), written: key };
      if (page.length < BATCH_SIZE) return;
      last = page.at(-1)!.key;
      await new Promise(setImmediate);
    }
  }

  return {
    ...limiters,
    redis: undefined,
    keyText: escapeKey,
    published: new Published([], undefined, 'limiters publish themselves in Redis only'),
    bans: bansIn(store, timeout, read),
    finder: (wanted) => fileFinder(rows, limiters, wanted),
    stored(name, policies, key, dimension) {
      const now = Date.now();
      const its = read({ set: setOf(name, policies, dimension, timeout), key });
      const found = policies.map(({ id }) => (its.policies.get(id) ?? 0) > now);
      return Promise.resolve([Math.max(its.bannedUntil, its.countedUntil) > now, ...found]);
    },
    async *overrides(isWanted) {
      for await (const { whose, overrides } of rows()) {
        if (!whose || overrides === '') continue;
        const { scope, head, key } = whose;
        // The record of all keys is stored under the limiter's name, in a scope without a limiter.
        const isOfAll = scope === '' && typeof key === 'string';
        const who = isOfAll ? `${escapeName(key)}:${ALL_KEYS}` : head.slice('x:{'.length);
        if (isWanted(who)) yield [who, overrides];
      }
    },
  };
}

/** The bans in a file. */
function bansIn(store: Store, timeout: number, read: (subject: Subject) => StateSummary): State['bans'] {
  const subjects = new Map<string, Subject>();
  const find = (head: string): StateSummary => read(subjects.get(head)!);
  const left = (head: string): number => Math.max(0, find(head).bannedUntil - Date.now());
  return {
    /** As `Bans.head`. @throws CliError `USAGE` for a hash, because a file can be searched by keys only */
    head(name, key, dimension = DEFAULT_DIMENSION) {
      if (typeof name !== 'string' || typeof key !== 'string')
        throw usageError('--sqlite: the key itself is needed, not its hash.');
      const head = `x:{${escapeScope(name)}:${keyTextOf(dimension, key, escapeKey)}`;
      const set = { ...setOf(name, [], dimension, timeout), ban: compileBan(LENIENT) };
      subjects.set(head, { set, key });
      return head;
    },
    left: (heads) => Promise.resolve(heads.map(left)),
    stateOf(head) {
      const { denials, countedUntil, lastBanMs } = find(head);
      const counted = countedUntil > Date.now() ? denials : 0;
      return Promise.resolve({ bannedForMs: left(head), denials: counted, lastBanMs });
    },
    async set(wanted) {
      await Promise.all(wanted.map(async ({ head, duration }) => store.ban(subjects.get(head)!, duration)));
      return undefined;
    },
    notes: (heads) => Promise.resolve(heads.map(() => null)),
    logOf: () => Promise.resolve(undefined),
  };
}

/** Opens a file, and closes it when `use` has ended. @throws CliError of the file, or the error of `use` */
export async function withFile(
  options: Options & { readonly sqlite: string },
  io: Io,
  use: (state: State) => Promise<void>,
): Promise<void> {
  const timeout = toMilliseconds('--timeout', options.timeout);
  const path = resolve(io.cwd, options.sqlite);
  const secret = secretOf(options, io);
  if (!existsSync(path)) throw new CliError('UNREACHABLE', `--sqlite: there is no file ${path}.`);
  const Driver = driverOf(io.cwd);
  const database = attempt(path, 'opened', () => new Driver(path));
  try {
    const sql = 'PRAGMA application_id';
    const [row] = attempt(path, 'read', () => database.prepare(sql).all()) as { application_id: number }[];
    if (row?.application_id !== APPLICATION_ID)
      throw failure(`--sqlite: ${path} is not a file of sqliteStore.`);
    await use(stateIn(database, secret, timeout));
  } finally {
    database.close();
  }
}

/** @throws CliError `FAILED` */
function attempt<T>(path: string, what: string, use: () => T): T {
  try {
    return use();
  } catch (error) {
    throw failure(`--sqlite: ${path} cannot be ${what}: ${(error as Error).message}.`, error);
  }
}

/** The class of node:sqlite, or of better-sqlite3 if that is installed in the working directory. @throws CliError `FAILED` */
function driverOf(cwd: string): new (path: string) => Open {
  const DatabaseSync = nodeDatabase<Open>();
  if (DatabaseSync) return DatabaseSync;
  try {
    return createRequire(join(cwd, 'package.json'))('better-sqlite3') as new (path: string) => Open;
  } catch (error) {
    throw failure(
      `--sqlite: Node ${process.version} has no node:sqlite. Use Node 22.13 or later, or run this where better-sqlite3 is installed.`,
      error,
    );
  }
}
