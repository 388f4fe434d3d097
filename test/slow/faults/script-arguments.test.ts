// Random bytes as the arguments of each script: the result is an error or an answer, never an endless loop or a key without a TTL.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { createLimiter, type BanOptions, type Limiter, type Policy } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { startServer, type TestServer } from '../../support/servers.js';
import { anyBytes, odd, runs } from '../../support/random.js';

interface Call {
  readonly source: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

const ban: BanOptions = { after: 2, within: '1m', for: '1m' };

interface Scene {
  readonly policies: readonly Policy[];
  readonly ban?: BanOptions;
  readonly overrides?: boolean;
}

const minute = { name: 'minute', limit: 2, window: '1m' } as const;

const scenes: readonly Scene[] = [
  { policies: [minute] },
  { policies: [minute], overrides: true, ban },
  ...(['fixed-window', 'sliding-log', 'gcra'] as const).map((algorithm) => ({
    policies: [{ ...minute, algorithm }],
  })),
  {
    ban,
    overrides: true,
    policies: [
      { name: 'bucket', algorithm: 'token-bucket', limit: 2, window: '1m', burst: 4 },
      { name: 'queue', algorithm: 'leaky-bucket', limit: 2, window: '1m', maxDelay: 5000, by: 'org' },
      { name: 'month', algorithm: 'calendar', limit: 2, period: 'month', thresholds: [0.5, 1] },
      { ...minute, count: 'attempts' },
    ],
  },
  { policies: [{ ...minute, by: 'org', share: 'key' }] },
  { policies: [{ name: 'slots', algorithm: 'concurrency', limit: 2, lease: '1m' }, minute] },
  { policies: [{ name: 'fair', algorithm: 'concurrency', limit: 3, lease: '1m', by: 'org', share: 'key' }] },
];

/** Uses every question and every change of a limiter. */
async function use(limiter: Limiter, { ban, overrides, policies }: Scene): Promise<void> {
  const key = policies.some(({ by }) => by) ? { key: 'a', org: 'b' } : 'a';
  const asked = await limiter.consume(key);
  // A repetition cannot hold the same slot.
  const id = policies.some(({ algorithm }) => algorithm === 'concurrency') ? undefined : 'i';
  await limiter.consume(key, id ? { id } : {});
  await asked.settle(0);
  await asked.release();
  for (const cost of [1, 1, 1]) await limiter.consume(key, { cost });
  await limiter.peek(key);
  await limiter.usage(key);
  await limiter.refund(key);
  if (ban) {
    await limiter.ban(key, '1m');
    await limiter.consume(key);
    await limiter.unban(key);
  }
  if (overrides) {
    await limiter.override('a', { minute: { limit: 4 } });
    await limiter.consume(key);
  }
  await limiter.reset(key);
}

/** The script calls of limiters with every feature. */
async function record(port: number): Promise<Call[]> {
  const client = new Redis(port);
  const sources = new Map<string, string>();
  const calls: Call[] = [];
  const send = client.sendCommand.bind(client);
  client.sendCommand = (command, ...rest) => {
    const [script, count, ...all] = command.args.map(String);
    if (command.name === 'eval') sources.set(createHash('sha1').update(script!).digest('hex'), script!);
    if (/^eval(sha)?$/.test(command.name)) {
      const source = command.name === 'eval' ? script! : sources.get(script!)!;
      calls.push({ source, keys: all.slice(0, Number(count)), args: all.slice(Number(count)) });
    }
    return send(command, ...rest);
  };
  const store = redisStore(client, { thresholds: 'stream' });
  for (const [i, scene] of scenes.entries()) {
    const limiter = createLimiter({ name: `l${i}`, store, onStoreError: 'throw', timeout: '1m', ...scene });
    await use(limiter, scene);
    await limiter.close();
  }
  const crossings = createAdmin(store).thresholds({ group: 'g' });
  await crossings.ack(...(await crossings.read()));
  await store.close?.();
  client.disconnect();
  return calls;
}

describe('random bytes as script arguments', () => {
  let server: TestServer;
  let client: Redis;
  before(async () => {
    server = await startServer('redis');
    client = new Redis(server.port, { commandTimeout: 20_000 });
  });
  after(async () => {
    client.disconnect();
    await server.kill('SIGKILL');
  });

  it('are an error or an answer, and leave no key without TTL', async () => {
    const recorded = await record(server.port);
    const scripts = [...new Set(recorded.map(({ source }) => source))];
    assert.ok(scripts.length >= 40, `${scripts.length} scripts`);
    const deadline = String(Date.now() + 600_000);
    const call = fc
      .constantFrom(...scripts)
      .chain((script) => fc.constantFrom(...recorded.filter(({ source }) => source === script)));
    let made = 0;
    await fc.assert(
      fc.asyncProperty(
        call,
        fc.array(fc.tuple(fc.nat(30), anyBytes(12)), { maxLength: 2 }),
        fc.array(fc.tuple(fc.nat(30), odd), { minLength: 1, maxLength: 2 }),
        async ({ source, keys, args: [, ...sound] }, changes, oddities) => {
          const args: (string | Buffer)[] = [...sound];
          for (const [at, bytes] of [...changes, ...oddities])
            if (args.length > 0) args[at % args.length] = bytes;
          const own = keys.map((key) => `${made}${key}`);
          made++;
          const answer: unknown = await client
            .eval(source, own.length, ...own, deadline, ...args)
            .catch((error: Error) => error);
          if (answer instanceof Error)
            assert.match(
              answer.message,
              /^(ERR|HEADGATE_|WRONGTYPE|user_script)/,
              JSON.stringify(args.map(String)),
            );
          for (const key of own) assert.notEqual(await client.pttl(key), -1, key);
        },
      ),
      // The server cannot run another script beside an endless one.
      { ...runs('redis', 3000, 3000), endOnFailure: true },
    );
    assert.equal(await client.ping(), 'PONG');
  });
});
