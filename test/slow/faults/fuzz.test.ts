// Random bytes as every input from outside: the result is a store error or a correct decision, never a crash, a hang, or a key without a TTL.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { createLimiter, HeadgateError, type Decision, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { compilePolicies } from '../../../src/contract/compile-policies.js';
import { assemble } from '../../../src/stores/redis/scripts.js';
import { paramArgs } from '../../../src/stores/redis/calls/wire.js';
import { allowKeysWithoutTtl } from '../../support/hooks.js';
import { servers } from '../../support/shared-servers.js';
import { runs } from '../../support/random.js';
import { freshPrefix } from '../../support/stores.js';
import { adapters } from '../../http/apps.js';

const LIMIT = 5;
const WINDOW_MS = 60_000;

const policies: Readonly<Record<string, Policy>> = {
  'fixed-window': { algorithm: 'fixed-window', limit: LIMIT, window: WINDOW_MS },
  'sliding-window': { algorithm: 'sliding-window', limit: LIMIT, window: WINDOW_MS },
  'sliding-log': { algorithm: 'sliding-log', limit: LIMIT, window: WINDOW_MS },
  gcra: { algorithm: 'gcra', limit: LIMIT, window: WINDOW_MS },
  'leaky-bucket': { algorithm: 'leaky-bucket', limit: LIMIT, window: WINDOW_MS, maxDelay: 5000 },
  concurrency: { algorithm: 'concurrency', limit: LIMIT, lease: WINDOW_MS },
};

/** Texts that resemble numbers. */
const odd = fc
  .constantFrom('', '-1', '0', '1e308', 'nan', 'inf', '-0', '9007199254740993', '0x10', ' 3 ', '3.7', '0.5')
  .map(Buffer.from);
const anyBytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((bytes) => Buffer.from(bytes));

/** Bytes in place of a stored value. A TTL of 0 means no TTL. */
const poison = fc.record({
  bytes: fc.oneof(
    anyBytes(64),
    odd,
    fc
      .array(fc.integer({ min: -3, max: 2e12 }), { maxLength: 6 })
      .map((numbers) => Buffer.from(numbers.join(' '))),
  ),
  /** Cuts or lengthens the present value instead of replacing it. */
  keep: fc.option(fc.nat(20), { nil: undefined }),
  ttl: fc.oneof(fc.constant(0), fc.integer({ min: 50, max: 2 * WINDOW_MS }), fc.constant(400 * 86_400_000)),
});

const operations = fc.array(
  fc.constantFrom('consume', 'peek', 'refund', 'settle', 'release', 'ban', 'unban', 'reset'),
  { minLength: 3, maxLength: 10 },
);

/** The maximum length of a ban, ms. */
const MAX_BAN_MS = 366 * 86_400_000;

function checkDecision(decision: Decision): void {
  for (const { remaining, limit, retryAfterMs, resetAfterMs, allowed } of decision.policies) {
    assert.ok(Number.isInteger(remaining) && remaining >= 0 && remaining <= limit, `remaining ${remaining}`);
    assert.ok(resetAfterMs >= 0 && resetAfterMs <= 2.2 * WINDOW_MS, `resetAfter ${resetAfterMs}`);
    // No key is locked out for longer than a window. The last segment of a sliding window may add one segment.
    if (!allowed)
      assert.ok(retryAfterMs! > 0 && retryAfterMs! <= 1.1 * WINDOW_MS, `retryAfter ${retryAfterMs}`);
  }
  if (decision.reason === 'banned')
    assert.ok(decision.retryAfterMs <= MAX_BAN_MS, `banned for ${decision.retryAfterMs}`);
}

function tolerate(error: unknown): void {
  if (error instanceof assert.AssertionError) throw error;
  assert.ok(error instanceof HeadgateError, String(error));
  assert.match(error.code, /^HEADGATE_(STORE_ERROR|MALFORMED_REPLY)$/, error.message);
}

for (const kind of ['redis', 'valkey'] as const) {
  describe(`random bytes as stored values, on ${kind}`, () => {
    let client: Redis;
    before(() => (client = new Redis(servers[kind].port)));
    after(() => client.disconnect());

    for (const [name, policy] of Object.entries(policies)) {
      it(`${name} and its ban: a decision in range or a store error, and no key stays without TTL`, async () => {
        allowKeysWithoutTtl();
        const prefix = freshPrefix();
        const limiter = createLimiter({
          store: redisStore(client, { prefix }),
          policies: [policy],
          ban: { after: 2, within: '1m', for: '1m', max: '10m' },
          onStoreError: 'throw',
          timeout: '1m',
        });
        let made = 0;
        await fc.assert(
          fc.asyncProperty(
            fc.array(poison, { minLength: 2, maxLength: 2 }),
            operations,
            async (poisons, steps) => {
              const key = `k${made++}`;
              await limiter.consume(key, { cost: 3 });
              await limiter.consume(key, { cost: 3 }).catch(tolerate);
              const keys = await client.keys(`${prefix}:{default:${key}}*`);
              assert.ok(keys.length >= 1);
              for (const [i, stored] of keys.entries()) {
                const { bytes, keep, ttl } = poisons[i % 2]!;
                const value = keep === undefined ? bytes : await kept(client, stored, keep, bytes);
                if (ttl === 0) await client.set(stored, value);
                else await client.set(stored, value, 'PX', ttl);
              }
              let last: Decision | undefined;
              for (const step of steps) {
                try {
                  if (step === 'consume' || step === 'peek') checkDecision((last = await limiter[step](key)));
                  else if (step === 'settle' || step === 'release') await last?.[step](2);
                  else if (step === 'ban') await limiter.ban(key, '1m');
                  else await limiter[step](key);
                } catch (error) {
                  tolerate(error);
                }
              }
              // Any bytes heal with the next write.
              await limiter.reset(key);
              await limiter.unban(key).catch(tolerate);
              checkDecision(await limiter.consume(key));
              for (const stored of await client.keys(`${prefix}:{default:${key}}*`)) {
                assert.notEqual(await client.pttl(stored), -1, `${stored} has no TTL`);
              }
            },
          ),
          runs(kind, 60, 60),
        );
        await limiter.close();
      });
    }
  });
}

/** A part of the present value, followed by other bytes. */
async function kept(client: Redis, key: string, length: number, bytes: Buffer): Promise<Buffer> {
  const value = await client.getBuffer(key).catch(() => null);
  return Buffer.concat([(value ?? Buffer.alloc(0)).subarray(0, length), bytes]);
}

describe('random bytes as script arguments', () => {
  it('are an error or an answer, and leave no key without TTL', async () => {
    const client = new Redis(servers.redis.port);
    const deadline = String(Date.now() + 600_000);
    // Slots need more arguments.
    const singles = Object.entries(policies).flatMap(([name, policy]) =>
      name === 'concurrency' ? [] : { ...policy, name },
    );
    const sets: [script: ReturnType<typeof assemble>, args: string[]][] = [
      ...compilePolicies('policies', singles).map((policy): (typeof sets)[number] => [
        assemble('evaluate-single', [policy.kernel], false),
        [deadline, ...paramArgs(policy, Date.now()), '2'],
      ]),
      [
        assemble('adjust', ['gcra'], false),
        [deadline, '0 gcra', '1', '1000', '5000', '0', '10000', '-1', '0', '0', '60000'],
      ],
      [
        assemble('evaluate-single', ['sliding-window'], true),
        [deadline, '2 60000 60000 1000 60000', '5', '6000', '10', '1'],
      ],
      [
        assemble('evaluate', ['sliding-window'], true),
        [deadline, '0 sliding-window', '5', '6000', '10', '2 60000 60000 1000 60000', '1'],
      ],
    ];
    let made = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...sets),
        fc.array(fc.tuple(fc.nat(20), anyBytes(12)), { minLength: 1, maxLength: 4 }),
        fc.array(fc.tuple(fc.nat(20), odd), { maxLength: 2 }),
        async ([script, sound], changes, oddities) => {
          const args: (string | Buffer)[] = [...sound];
          // A deadline below 0 is the time of a test's clock, and 'nan' means no deadline.
          for (const [at, bytes] of changes)
            if (at % args.length > 0 || !bytes.includes('-')) args[at % args.length] = bytes;
          for (const [at, bytes] of oddities) args[1 + (at % (args.length - 1))] = bytes;
          const keys = [`fuzz:{${made}}1`, `fuzz:{${made++}}2`];
          const answer: unknown = await client
            .eval(script.source, 2, ...keys, ...args)
            .catch((error: Error) => error);
          if (answer instanceof Error)
            assert.match(answer.message, /^(ERR|HEADGATE_LATE|WRONGTYPE|user_script)/);
          for (const key of keys) assert.notEqual(await client.pttl(key), -1, key);
        },
      ),
      runs('redis', 500, 500),
    );
    assert.equal(await client.ping(), 'PONG');
    client.disconnect();
  });
});

describe('random bytes as keys', () => {
  it('any string is a separate key', async () => {
    const client = new Redis(servers.redis.port);
    const limiter = createLimiter({
      store: redisStore(client, { prefix: freshPrefix() }),
      limit: 1,
      window: WINDOW_MS,
      onStoreError: 'throw',
      timeout: '1m',
    });
    const anyString = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 40 }),
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
      fc
        .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 })
        .map((units) => String.fromCharCode(...units)),
    );
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(anyString, async (key) => {
        const { allowed } = await limiter.consume(key);
        assert.equal(allowed, !seen.has(key));
        seen.add(key);
      }),
      runs('redis', 300, 300),
    );
    await limiter.close();
    client.disconnect();
  });
});

describe('random bytes as HTTP headers', () => {
  for (const [name, { serve }] of Object.entries(adapters)) {
    it(`${name}: an answer in time that is not a server error`, async () => {
      const served = await serve({
        limiters: [
          { limit: 1e6, window: '1m', cost: (req) => (req.headers['x-cost'] === undefined ? 1 : 2) },
        ],
      });
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.uint8Array({ maxLength: 60 }), { minLength: 1, maxLength: 4 }),
          fc.constantFrom('x-forwarded-for', 'x-real-ip', 'forwarded', 'x-cost', 'host', 'cookie'),
          async (values, header) => {
            // A header ends with its line. The bytes after it would be the test's next request.
            const clean = values.map((bytes) =>
              Buffer.from(bytes.filter((byte) => byte !== 10 && byte !== 13)),
            );
            const answer = await request(served.port, header, clean);
            const status = Number(/^HTTP\/1.1 (\d+)/.exec(answer)?.[1]);
            // The value of a trusted proxy is not an address, so the client cannot be identified.
            if (status === 500) assert.match(answer, /HEADGATE_NO_CLIENT_IP/);
            else assert.ok(status === 200 || (status >= 400 && status < 500), answer);
          },
        ),
        runs('memory', 150, 150),
      );
      await served.close();
    });
  }
});

/** Sends a request as bytes. Resolves with the answer. */
function request(port: number, header: string, values: readonly Buffer[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    socket.setTimeout(5000, () => socket.destroy(new Error('no answer')));
    socket.on('data', (data) => (answer += data.toString('latin1')));
    socket.on('error', reject);
    socket.on('close', () => resolve(answer));
    socket.write('GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n');
    for (const value of values) {
      socket.write(`${header}: `);
      socket.write(value);
      socket.write('\r\n');
    }
    socket.write('\r\n');
  });
}
