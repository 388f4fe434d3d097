import type { TenantState } from '../../algorithms/sharing.js';
import { compileBan, type BanOptions } from '../../contract/ban-options.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet, Store } from '../../contract/store.js';
import type { JournalEntry } from '../../stores/journal.js';
import { CROSSINGS_LIFE_MS } from '../../features/thresholds/crossings.js';
import {
  BAN_TAG,
  escapeName,
  escapeScope,
  keyTextOf,
  parseStateKey,
  resetKey,
  statePattern,
  type Hash,
} from '../../stores/keys.js';
import { PROBE_SCOPE } from '../../contract/health.js';
import { strikesOf } from '../../features/bans/saved-ban.js';
import { overrideIndexKey, ownerTextOfAll, recordKey } from '../../features/overrides/record-keys.js';
import type { LiveLimiter } from '../../features/overrides/redis-check.js';
import { bookKeys } from '../../stores/redis/operators/ban-book.js';
import { checkServers } from '../../stores/redis/operators/check.js';
import type { Finding } from '../../stores/redis/operators/finding.js';
import { publishedKey } from '../../stores/redis/operators/publisher.js';
import { readCrossing, readerKeys, type StreamEntry } from '../../features/thresholds/stream.js';
import type { RedisConnection } from '../../stores/redis/redis.js';
import { RedisStore } from '../../stores/redis/redis-store.js';
import { assemble } from '../../stores/redis/scripts.js';
import type { KeyHashing } from '../../stores/redis/secret-keys.js';
import { parseInstance, Published, type Instance } from '../published.js';
import type {
  BanChange,
  BanState,
  CrossingSource,
  FoundKey,
  Owner,
  Search,
  State,
  StateSettings,
} from '../state.js';
import { unlogged, type Origin } from '../unlogged.js';
import { Calls, isUnreadable, OtherKeyError, reasonOf } from './calls.js';
import { CountReader } from './count-reader.js';
import { RedisLog } from './log.js';
import { MemoryReader } from './memory.js';
import { readTenant } from './tenant.js';

/**
 * Ban options for bans by hand, which do not use the service's options. With the longest spans, they do not shorten the service's memory of
 * denials and earlier bans. The service applies its own spans.
 */
const LENIENT: BanOptions = { within: '366d', max: '366d' };

/** The default number of keys that the server checks in one step. More keys would delay the server's other requests. */
const KEYS_PER_STEP = 500;

/** The number of bans, publications or records that are read or written at a time. */
const BATCH_SIZE = 500;

/** The time for which an override is still read after its end in the index, ms, because clocks differ. */
const CLOCK_TOLERANCE_MS = 60_000;

/** The reply of PTTL for a missing key. */
const NO_KEY = -2;

export class RedisState implements State {
  readonly kind = 'redis';
  readonly timeout: number;
  readonly log: RedisLog;
  readonly crossings: CrossingSource = {
    read: async (group, most, idle) => {
      const { commands, prefix } = this.#calls;
      const args = ['', String(most), String(idle), String(CROSSINGS_LIFE_MS)];
      const script = assemble('read-crossings');
      const entries = await this.#calls.run(script, readerKeys(prefix, group), args);
      const head = `${commands.keyPrefix}${prefix}:{`;
      return (entries as StreamEntry[]).map((entry) => readCrossing(entry, head));
    },
    ack: async (group, ids) => {
      const [, , pending] = readerKeys(this.#prefix, group);
      await this.#calls.call('ZREM', pending, ...ids);
    },
  };
  readonly counts: CountReader;
  readonly memory: MemoryReader;
  readonly #calls: Calls;
  readonly #prefix: string;
  readonly #hashing: KeyHashing;
  readonly #bans: PolicySet;
  readonly #origin: Origin;

  constructor({ commands, prefix, hashing, clock }: RedisConnection, { timeout, origin }: StateSettings) {
    this.timeout = timeout;
    this.#origin = origin;
    this.#calls = new Calls(commands, prefix, timeout, clock);
    this.log = new RedisLog(this.#calls);
    this.counts = new CountReader(this.#calls, hashing.text);
    this.memory = new MemoryReader(this.#calls);
    this.#prefix = prefix;
    this.#hashing = hashing;
    this.#bans = { name: '', policies: [], ban: compileBan(LENIENT), timeout };
  }

  openStore(undoes?: string): Store {
    const store = new RedisStore(this.#calls.commands, {
      ...{ prefix: this.#prefix, hashing: this.#hashing, clock: this.#calls.clock },
      ...{ localDenials: undefined, publish: undefined, sample: undefined, thresholds: false },
    });
    return unlogged(store, this.#origin, true, undoes);
  }

  ownerOf(name: string | Hash, key: string | Hash, by = DEFAULT_DIMENSION): Owner {
    const scope = escapeScope(name);
    return { scope, name, key, by, text: `${scope}:${keyTextOf(by, key, this.#hashing.text)}` };
  }

  now(): Promise<number> {
    return this.#calls.now();
  }

  #headOf({ text }: Owner): string {
    return `${this.#prefix}:{${text}`;
  }

  async published(): Promise<Published> {
    const index = publishedKey(this.#prefix);
    let problem: string | undefined;
    const ids = await this.#calls.call('ZRANGEBYSCORE', index, '-inf', '+inf').then(
      (found) => found as string[],
      (error: unknown) => {
        if (!(error instanceof OtherKeyError)) throw error;
        problem = `the limiters are unknown: ${reasonOf(error)}`;
        return [];
      },
    );
    const instances: Instance[] = [];
    for (let at = 0; at < ids.length; at += BATCH_SIZE) {
      const some = ids.slice(at, at + BATCH_SIZE);
      const texts = await Promise.all(
        some.map((id) => this.#calls.call('GET', publishedKey(this.#prefix, id)).catch(ignoreOther)),
      );
      texts.forEach((text, i) => instances.push(...parseInstance(some[i]!, text)));
    }
    return new Published(instances, { mark: this.#hashing.mark, isShared: true, problem });
  }

  /** Searches the keys of all servers with SCAN, in short steps. */
  async *search({
    name,
    key,
    id = '*',
    count = KEYS_PER_STEP,
    progress,
    signal,
  }: Search): AsyncGenerator<FoundKey[]> {
    const { cluster, keyPrefix } = this.#calls.commands;
    const text = key === undefined ? undefined : this.#hashing.text(key);
    const pattern = keyPrefix.replace(/[*?[\]\\^]/g, '\\$&') + statePattern(this.#prefix, name, text, id);
    const servers = await this.#calls.servers();
    for (const [i, server] of servers.entries()) {
      let cursor = '0';
      do {
        const step = server.send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', String(count)]);
        const [next, keys] = (await this.#calls.ask(step)) as [string, string[]];
        cursor = String(next);
        yield keys.flatMap((each) => this.#found(each.slice(keyPrefix.length)));
        // In a cluster, a cursor is only the position within one slot.
        const share = cursor === '0' ? 1 : cluster ? 0 : shareOf(cursor);
        progress?.((i + share) / servers.length);
      } while (cursor !== '0' && !signal?.aborted);
      if (signal?.aborted) return;
    }
  }

  async *recorded(name: string | undefined): AsyncGenerator<FoundKey[]> {
    const [index] = bookKeys(this.#prefix);
    const isWanted = ({ owner }: FoundKey): boolean => name === undefined || owner.scope === escapeName(name);
    const range = [String(await this.now()), '+inf', 'LIMIT'];
    for (let at = 0; ; at += BATCH_SIZE) {
      const page = this.#calls.call('ZRANGEBYSCORE', index, ...range, String(at), String(BATCH_SIZE));
      // An index that cannot be read names no bans.
      const owners = (await page.catch(ignoreUnreadable)) as string[] | undefined;
      if (!owners?.length) return;
      yield owners.flatMap((text) => this.#found(`${this.#prefix}:{${text}}${BAN_TAG}`)).filter(isWanted);
    }
  }

  #found(redisKey: string): FoundKey[] {
    const parsed = parseStateKey(this.#prefix, redisKey);
    if (!parsed || parsed.scope === PROBE_SCOPE) return [];
    const { head, id, ...owner } = parsed;
    return [{ owner: { ...owner, text: head.slice(this.#prefix.length + 2) }, id }];
  }

  look(set: PolicySet, owners: readonly Owner[]): Promise<(Reply | Error)[]> {
    return this.#calls.look(
      set,
      owners.map((owner) => this.#headOf(owner)),
    );
  }

  async lives(found: readonly FoundKey[]): Promise<(number | null | undefined)[]> {
    const times = await Promise.all(
      found.map(({ owner, id }) => this.#calls.call('PTTL', `${this.#headOf(owner)}}${id}`)),
    );
    return times.map((time) =>
      Number(time) === NO_KEY ? undefined : Number(time) < 0 ? null : Number(time),
    );
  }

  async bans(owners: readonly Owner[]): Promise<(number | Error)[]> {
    const replies = await this.look(this.#bans, owners);
    return replies.map((reply) => (reply instanceof Error ? reply : reply.ban));
  }

  async banState(owner: Owner): Promise<BanState> {
    const [value, [reply]] = await Promise.all([
      this.#calls.call('GET', `${this.#headOf(owner)}}${BAN_TAG}`),
      this.look(this.#bans, [owner]),
    ]);
    if (reply instanceof Error) throw reply;
    const { now, ban } = reply!;
    return { bannedForMs: ban, ...strikesOf(value as string | null, now) };
  }

  async setBans(changes: readonly BanChange[], logged?: JournalEntry): Promise<string | undefined> {
    const script = assemble('set-ban', [], ['bans']);
    const params = Object.values(this.#bans.ban!).map(String);
    let unnoted: string | undefined;
    for (let at = 0; at < changes.length; at += BATCH_SIZE) {
      const some = changes.slice(at, at + BATCH_SIZE);
      const calls = some.map(({ owner, duration }) => {
        const key = `${this.#headOf(owner)}}${BAN_TAG}`;
        return this.#calls.run(script, [key], ['', String(duration), ...params]);
      });
      await Promise.all(calls);
      const noted = this.log.note(some, at === 0 ? logged : undefined);
      await noted.catch((error: unknown) => (unnoted = reasonOf(error)));
    }
    return unnoted;
  }

  async overridden(): Promise<string[]> {
    return this.#overriddenSince(await this.now());
  }

  #overriddenSince(time: number): Promise<string[]> {
    const index = overrideIndexKey(this.#prefix);
    return this.#calls.call('ZRANGEBYSCORE', index, String(time), '+inf') as Promise<string[]>;
  }

  async *overrideRecords(isWanted: (owner: string) => boolean): AsyncGenerator<readonly [string, unknown]> {
    const wanted = (await this.#overriddenSince((await this.now()) - CLOCK_TOLERANCE_MS)).filter(isWanted);
    for (let at = 0; at < wanted.length; at += BATCH_SIZE) {
      const some = wanted.slice(at, at + BATCH_SIZE);
      const keys = some.map((owner) => recordKey(this.#prefix, owner));
      const records = await Promise.all(keys.map((key) => this.#calls.call('GET', key)));
      yield* some.map((owner, i) => [owner, records[i]] as const);
    }
  }

  overrideRecordOfAll(name: string): Promise<unknown> {
    return this.#calls.call('GET', recordKey(this.#prefix, ownerTextOfAll(name)));
  }

  async forget({ owner, id }: FoundKey): Promise<void> {
    const head = this.#headOf(owner);
    const keys = [`${head}}${id}`, resetKey({ head, id })];
    await this.#calls.run(assemble('reset'), keys, ['', '0']);
  }

  /** Without permission to read a state, it is unknown. */
  tenants(found: readonly FoundKey[], segments: number): Promise<(TenantState | undefined)[]> {
    return Promise.all(
      found.map(({ owner, id }) =>
        readTenant(this.#calls, `${this.#headOf(owner)}}${id}`, segments).catch(ignoreUnreadable),
      ),
    );
  }

  /** Without permission for `MEMORY USAGE`, the sizes are unknown. */
  async bytes(found: readonly FoundKey[]): Promise<(number | undefined)[]> {
    const { commands } = this.#calls;
    const servers = await this.#calls.servers();
    return Promise.all(
      found.map(({ owner, id }) => {
        const key = `${this.#headOf(owner)}}${id}`;
        const server = servers.find(({ name }) => name === commands.serverOf(key)) ?? servers[0]!;
        return this.#calls.ask(server.send(['MEMORY', 'USAGE', commands.keyPrefix + key])).then(
          (size) => (size === null ? undefined : Number(size)),
          () => undefined,
        );
      }),
    );
  }

  check(live: readonly LiveLimiter[]): Promise<Finding[]> {
    return checkServers(this.#calls.commands, this.#prefix, { live, timeout: this.timeout });
  }

  async close(): Promise<void> {}
}

/** The share of the keys before a cursor. SCAN counts cursors from their highest bit to their lowest, whatever the table's size. */
function shareOf(cursor: string): number {
  const bits = BigInt(cursor).toString(2).padStart(64, '0');
  return parseInt([...bits].reverse().join('').slice(0, 32), 2) / 2 ** 32;
}

/** Ignores a foreign value in place of an instance. Other errors are thrown. */
function ignoreOther(error: unknown): undefined {
  if (!(error instanceof OtherKeyError)) throw error;
}

/** Also ignores a missing permission. */
function ignoreUnreadable(error: unknown): undefined {
  if (!isUnreadable(error)) throw error;
}
