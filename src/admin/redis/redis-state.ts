import type { TenantState } from '../../algorithms/shares/sharing.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet, Store } from '../../contract/store.js';
import { escapeScope, keyTextOf, resetKey, statePattern, type Hash } from '../../stores/keys.js';
import type { LiveLimiter } from '../../features/overrides/redis-check.js';
import { checkServers } from '../../stores/redis/operators/check.js';
import type { Finding } from '../../stores/redis/operators/finding.js';
import { publishedKey } from '../../stores/redis/operators/publisher.js';
import { crossingsOn } from '../../features/thresholds/stream.js';
import type { RedisConnection } from '../../stores/redis/redis.js';
import { RedisStore } from '../../stores/redis/redis-store.js';
import { assemble } from '../../stores/redis/scripts.js';
import type { KeyHashing } from '../../stores/redis/secret-keys.js';
import { batches } from '../batches.js';
import type { BanSource } from '../bans/ban-source.js';
import type { OverrideSource, OverrideFields } from '../overrides/override-source.js';
import { parseInstance, Published, type Instance } from '../published.js';
import type { KeptKey } from '../owners.js';
import type { FoundKey, Loss, Owner, Search, State, StateSettings } from '../state.js';
import { unlogged, type Origin } from '../unlogged.js';
import { redisBans } from '../bans/redis-ban-source.js';
import { Calls, ignoreUnreadable, OtherKeyError, reasonOf } from './calls.js';
import { CountReader } from './count-reader.js';
import { RedisLog } from './log.js';
import { readLoss } from './loss.js';
import { MemoryReader } from './memory.js';
import { redisOverrides } from '../overrides/redis-override-source.js';
import { readTenant } from './tenant.js';

/** The default number of keys that the server checks in one step. More keys would delay the server's other requests. */
const KEYS_PER_STEP = 500;

/** The reply of PTTL for a missing key. */
const NO_KEY = -2;

export class RedisState implements State {
  readonly kind = 'redis';
  readonly timeout: number;
  readonly log: RedisLog;
  readonly bans: BanSource;
  readonly overrides: OverrideSource;
  readonly crossings: State['crossings'];
  readonly counts: CountReader;
  readonly memory: MemoryReader;
  readonly #calls: Calls;
  readonly #prefix: string;
  readonly #hashing: KeyHashing;
  readonly #origin: Origin;

  constructor({ commands, prefix, hashing, clock }: RedisConnection, { timeout, origin }: StateSettings) {
    this.timeout = timeout;
    this.#origin = origin;
    this.#calls = new Calls(commands, prefix, timeout, clock);
    this.log = new RedisLog(this.#calls);
    this.bans = redisBans(this.#calls, this.log);
    this.overrides = redisOverrides(this.#calls, (found) => this.values(found));
    this.crossings = crossingsOn(this.#calls, (keys, args) =>
      this.#calls.run(assemble('read-crossings'), keys, args),
    );
    this.counts = new CountReader(this.#calls, hashing.text);
    this.memory = new MemoryReader(this.#calls);
    this.#prefix = prefix;
    this.#hashing = hashing;
  }

  openStore(changes?: OverrideFields): Store {
    const store = new RedisStore(this.#calls.commands, {
      ...{ prefix: this.#prefix, hashing: this.#hashing, clock: this.#calls.clock },
      ...{ localDenials: undefined, publish: undefined, sample: undefined, stream: false },
    });
    return unlogged(store, this.#origin, true, changes);
  }

  ownerOf(name: string | Hash, key: string | Hash, by = DEFAULT_DIMENSION): Owner {
    const scope = escapeScope(name);
    return { scope, name, key, by, text: `${scope}:${keyTextOf(by, key, this.#hashing.text)}` };
  }

  now(): Promise<number> {
    return this.#calls.now();
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
    for (const some of batches(ids)) {
      const texts = await Promise.all(
        some.map((id) => this.#calls.call('GET', publishedKey(this.#prefix, id)).catch(ignoreOther)),
      );
      texts.forEach((text, i) => instances.push(...parseInstance(some[i]!, text)));
    }
    return new Published(instances, { mark: this.#hashing.mark, isComplete: true, problem });
  }

  async loss(): Promise<Loss | null> {
    const [published, recent] = await Promise.all([this.published(), this.counts.read()]);
    return readLoss(this.#calls, published, recent);
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
        yield keys.flatMap((each) => this.#calls.found(each.slice(keyPrefix.length)));
        // In a cluster, a cursor is only the position within one slot.
        const fraction = cursor === '0' ? 1 : cluster ? 0 : fractionBefore(cursor);
        await progress?.((i + fraction) / servers.length);
      } while (cursor !== '0' && !signal?.aborted);
      if (signal?.aborted) return;
    }
  }

  look(set: PolicySet, owners: readonly Owner[]): Promise<(Reply | Error)[]> {
    return this.#calls.look(set, owners.map(this.#calls.headOf));
  }

  async lives(found: readonly FoundKey[]): Promise<(number | null | undefined)[]> {
    const times = await Promise.all(found.map((each) => this.#calls.call('PTTL', this.#calls.keyOf(each))));
    return times.map((time) =>
      Number(time) === NO_KEY ? undefined : Number(time) < 0 ? null : Number(time),
    );
  }

  async values(found: readonly KeptKey[]): Promise<(string | undefined)[]> {
    const texts = await Promise.all(found.map((each) => this.#calls.call('GET', this.#calls.keyOf(each))));
    return texts.map((text) => (text as string | null) ?? undefined);
  }

  async forget(found: FoundKey): Promise<void> {
    const history = resetKey({ head: this.#calls.headOf(found.owner), id: found.id });
    await this.#calls.run(assemble('reset'), [this.#calls.keyOf(found), history], ['', '0']);
  }

  /** Without permission to read a state, it is unknown. */
  tenants(found: readonly FoundKey[], segments: number): Promise<(TenantState | undefined)[]> {
    return Promise.all(
      found.map((each) => readTenant(this.#calls, this.#calls.keyOf(each), segments).catch(ignoreUnreadable)),
    );
  }

  /** Without permission for `MEMORY USAGE`, the sizes are unknown. */
  async bytes(found: readonly FoundKey[]): Promise<(number | undefined)[]> {
    const { commands } = this.#calls;
    const servers = await this.#calls.servers();
    return Promise.all(
      found.map((each) => {
        const key = this.#calls.keyOf(each);
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

/** The fraction of the keys before a cursor. SCAN counts cursors from their highest bit to their lowest, whatever the table's size. */
function fractionBefore(cursor: string): number {
  const bits = BigInt(cursor).toString(2).padStart(64, '0');
  return parseInt([...bits].reverse().join('').slice(0, 32), 2) / 2 ** 32;
}

/** Ignores a foreign value in place of an instance. Other errors are thrown. */
function ignoreOther(error: unknown): undefined {
  if (!(error instanceof OtherKeyError)) throw error;
}
