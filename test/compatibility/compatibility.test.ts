// docs/compatibility.md: what one version has written, the next one reads; and two do not disturb each other.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import type { Policy } from 'headgate';
import { algorithms as kernels } from '../../src/algorithms/index.js';
import { servers } from '../support/shared-servers.js';
import { runs } from '../support/random.js';
import { freshPrefix, START } from '../support/stores.js';
import { KEY, limiterOf, look, type Sample } from './layout.js';

const layouts = new URL('layouts/', import.meta.url);

for (const kind of ['redis', 'valkey'] as const) {
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
        it(`layout ${file.replace('.json', '')}: ${what}`, async () => {
          const prefix = freshPrefix();
          for (const { key, string, zset, expires } of entries) {
            const name = key.replace('hg:', `${prefix}:`);
            if (zset) {
              for (let i = 0; i < zset.length; i += 2) await client.zadd(name, zset[i + 1]!, zset[i]!);
              await client.pexpireat(name, expires);
            } else {
              await client.set(name, Buffer.from(string!, 'base64'), 'PXAT', expires);
            }
          }
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

describe('the layout of now', () => {
  it('has samples of every kernel, under the tags that keys end with', () => {
    const tags = Object.values(kernels).map(({ tag }) => tag);
    const keys = readdirSync(layouts).flatMap((file) =>
      (JSON.parse(readFileSync(new URL(file, layouts), 'utf8')) as { samples: Sample[] }).samples.flatMap(
        ({ entries }) => entries.map(({ key }) => key.slice(key.lastIndexOf('}') + 1).replace(/:.*/, '')),
      ),
    );
    for (const tag of [...tags, 'b1']) assert.ok(keys.includes(tag), `no sample of ${tag}: run record.ts`);
  });
});

describe('two policy sets of one name at once, as in a deployment', () => {
  let client: Redis;
  before(() => (client = new Redis(servers.redis.port)));
  after(() => client.disconnect());

  const windowed = ['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket'] as const;
  const policy = (algorithm: (typeof windowed)[number]) =>
    fc.record({
      algorithm: fc.constant(algorithm),
      limit: fc.integer({ min: 1, max: 20 }),
      window: fc.constantFrom(60_000, 90_001, 600_000),
    }) as fc.Arbitrary<Policy & { limit: number; window: number }>;

  for (const algorithm of windowed) {
    // A sliding window's last segment may be longer; a bucket may be in debt for one window, and then needs the units.
    const most = algorithm === 'token-bucket' ? 2 : 1.2;
    it(`${algorithm}: two limits and windows share the state; nobody is locked out, and none errs`, async () => {
      await fc.assert(
        fc.asyncProperty(
          policy(algorithm),
          policy(algorithm),
          fc.array(
            fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 40_000 }), fc.integer({ min: 1, max: 3 })),
            {
              minLength: 5,
              maxLength: 30,
            },
          ),
          async (old, young, steps) => {
            const prefix = freshPrefix();
            let now = START;
            const [one, two] = [old, young].map((one) => limiterOf(client, prefix, [one], () => now, false));
            let admittedInARow = 0;
            for (const [first, pause, cost] of steps) {
              now += pause;
              const { reason, policies, allowed } = await (first ? one! : two!).consume(KEY, { cost });
              const { window, limit } = first ? old : young;
              for (const { retryAfterMs, remaining } of policies) {
                assert.ok(retryAfterMs === undefined || retryAfterMs <= window * most, `${retryAfterMs}`);
                assert.ok(remaining <= limit);
              }
              if (pause > 0) admittedInARow = 0;
              if (allowed) admittedInARow += cost;
              assert.ok(admittedInARow <= old.limit + young.limit);
              assert.notEqual(reason, 'store-error');
            }
            await one!.close();
            await two!.close();
          },
        ),
        runs('redis', 40, 40),
      );
    });
  }

  it('another algorithm has other keys: both decide as if alone', async () => {
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
