// docs/compatibility.md: a version reads the state of the version before, and two versions side by side do not disturb each other.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { algorithms as kernels } from '../../src/algorithms/index.js';
import { serverKinds, servers } from '../support/shared-servers.js';
import { freshPrefix, START } from '../support/stores.js';
import { KEY, limiterOf, look, type Entry, type Sample } from './layout.js';

const layouts = new URL('layouts/', import.meta.url);

const tags = [...Object.values(kernels).map(({ tag }) => tag), 'b1'];
const tagOf = ({ key }: Entry) => /\}(\w+)/.exec(key)![1]!;

/** Writes samples under a separate prefix. Returns their keys. */
async function write(client: Redis, prefix: string, entries: readonly Entry[]): Promise<string[]> {
  return Promise.all(
    entries.map(async ({ key, string, zset, expires }) => {
      const name = key.replace('hg:', `${prefix}:`);
      if (zset) {
        for (let i = 0; i < zset.length; i += 2) await client.zadd(name, zset[i + 1]!, zset[i]!);
        await client.pexpireat(name, expires);
      } else {
        await client.set(name, Buffer.from(string!, 'base64'), 'PXAT', expires);
      }
      return name;
    }),
  );
}

for (const kind of serverKinds) {
  describe(`state of earlier versions, on ${kind}`, () => {
    let client: Redis;
    before(() => (client = new Redis(servers[kind].port)));
    after(() => client.disconnect());

    for (const file of readdirSync(layouts)) {
      const { written, samples } = JSON.parse(readFileSync(new URL(file, layouts), 'utf8')) as {
        written: number;
        samples: Sample[];
      };
      for (const { what, policies, entries, looks } of samples) {
        const unreadable = entries.filter((entry) => !tags.includes(tagOf(entry)));
        if (unreadable.length > 0) {
          it(`layout ${file.replace('.json', '')}: ${what}: versions side by side do not see each other's state`, async () => {
            const [prefix, other] = [freshPrefix(), freshPrefix()];
            const names = await write(client, prefix, unreadable);
            const dump = () =>
              Promise.all(
                names.map(async (name) => [name, await client.dump(name), await client.pexpiretime(name)]),
              );
            const before = await dump();
            const [beside, alone] = [prefix, other].map((each) =>
              limiterOf(client, each, policies, () => written),
            );
            for (const limiter of [beside!, alone!]) await limiter.consume(KEY);
            assert.deepEqual(await look(beside!), await look(alone!));
            await beside!.reset(KEY);
            assert.deepEqual(await dump(), before);
            await Promise.all([beside!.close(), alone!.close()]);
          });
          continue;
        }
        it(`layout ${file.replace('.json', '')}: ${what}`, async () => {
          const prefix = freshPrefix();
          await write(client, prefix, entries);
          let now = written;
          const limiter = limiterOf(client, prefix, policies, () => now);
          for (const { after, says } of looks) {
            now = written + after;
            assert.deepEqual(await look(limiter), says, `${after} ms later`);
          }
          await limiter.close();
        });
      }
    }
  });
}

describe('the current layout', () => {
  it('has samples of every kernel, under the tags that keys end with', () => {
    const found = readdirSync(layouts).flatMap((file) =>
      (JSON.parse(readFileSync(new URL(file, layouts), 'utf8')) as { samples: Sample[] }).samples.flatMap(
        ({ entries }) => entries.map(tagOf),
      ),
    );
    for (const tag of tags) assert.ok(found.includes(tag), `no sample of ${tag}: run record.ts`);
  });
});

describe('two policy sets of one name at once, as in a deployment', () => {
  let client: Redis;
  before(() => (client = new Redis(servers.redis.port)));
  after(() => client.disconnect());

  const windowed = ['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket'] as const;

  it('policies that differ only in the limit share their count; a policy of another shape has its own count', async () => {
    const shared: Record<string, readonly [number, number]> = {};
    for (const algorithm of windowed) {
      const prefix = freshPrefix();
      const policies = [
        { algorithm, limit: 10, window: 60_000 },
        { algorithm, limit: 20, window: 60_000 },
        { algorithm, limit: 10, window: 90_000 },
      ] as const;
      const limiters = policies.map((policy) => limiterOf(client, prefix, [policy], () => START, false));
      const left = await Promise.all(limiters.map((each) => each.consume(KEY, { cost: 4 })));
      shared[algorithm] = [left[1]!.remaining, left[2]!.remaining];
      for (const limiter of limiters) await limiter.close();
    }
    assert.deepEqual(shared, {
      'fixed-window': [12, 6],
      'sliding-window': [12, 6],
      'sliding-log': [12, 6],
      'token-bucket': [16, 6],
    });
  });

  it('another algorithm has other keys: each decides as if it were alone', async () => {
    const prefix = freshPrefix();
    const now = START;
    const limiters = windowed.map((algorithm) =>
      limiterOf(client, prefix, [{ algorithm, limit: 3, window: 60_000 }], () => now, false),
    );
    for (const remaining of [2, 1, 0]) {
      for (const limiter of limiters) assert.equal((await limiter.consume(KEY)).remaining, remaining);
    }
    for (const limiter of limiters) await limiter.close();
  });
});
