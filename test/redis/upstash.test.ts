// Redis over HTTP: the store of headgate/upstash against the documented REST API, over a real Redis.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { Redis as UpstashClient } from '@upstash/redis';
import {
  createLimiter,
  HeadgateError,
  type ErrorCode,
  type CreateLimiterOptions,
  type Store,
} from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore as tcpStore } from 'headgate/redis';
import { redisStore, upstashRedis, type RedisStoreOptions } from 'headgate/upstash';
import { contractChecks } from 'headgate-testing';
import type { UpstashCommands } from '../../src/stores/redis/clients/upstash.js';
import type { Instead, RestServer } from '../support/rest-server.js';
import { describeChecks } from '../support/kit.js';
import { restSubject, useRest } from '../support/rest-subject.js';
import { freePort } from '../support/servers.js';
import { clients, freshPrefix } from '../support/stores.js';

const minute = { algorithm: 'fixed-window', limit: 3, window: '1m' } as const;

/** A limiter whose decisions need an answer, however busy the machine is. */
const patient = { timeout: '10s', connectTimeout: '10s' } as const;

describe('Redis over HTTP', () => {
  let rest: RestServer;
  useRest((started) => (rest = started));
  beforeEach(() => {
    rest.requests.length = 0;
    rest.instead = undefined;
  });

  const storeAt = (options: RedisStoreOptions = {}, url = rest.url): Store =>
    redisStore(upstashRedis({ url, token: rest.token }), { prefix: freshPrefix(), ...options });
  const limiterAt = (store: Store, options: Partial<CreateLimiterOptions> & { limit?: number } = {}) =>
    createLimiter({ name: 'api', store, ...minute, ...patient, ...options });
  /** The commands for a key. Probes of the server are for a key of their own. */
  const askedFor = (key: string) =>
    rest.requests.flatMap(({ commands }) => commands).filter((words) => words[3]!.includes(`:${key}}`));
  const sent = () => rest.requests.map(({ commands }) => commands.map(([name]) => name));

  it('decides by one request, with the hash of the script', async () => {
    const limiter = limiterAt(storeAt());
    await limiter.consume('ada');
    rest.requests.length = 0;
    const decision = await limiter.consume('ada');
    expect(decision).to.include({ allowed: true, remaining: 1, degraded: false });
    expect(sent()).to.deep.equal([['EVALSHA']]);
    expect(rest.requests[0]!.path).to.equal('/');
  });

  it('brings a script that the server lacks, by EVAL after NOSCRIPT', async () => {
    await clients.redis.script('FLUSH');
    const limiter = limiterAt(storeAt());
    expect((await limiter.consume('ada')).remaining).to.equal(2);
    expect(sent()).to.deep.equal([['EVALSHA'], ['EVAL']]);
    await clients.redis.script('FLUSH');
    expect((await limiter.consume('ada')).remaining).to.equal(1);
    expect(sent().slice(2)).to.deep.equal([['EVALSHA'], ['EVAL']]);
  });

  it('sends all calls of a turn as one request, also those of several limiters', async () => {
    const store = storeAt();
    const limiters = ['a', 'b', 'c'].map((name) => limiterAt(store, { name, limit: 100 }));
    await Promise.all(limiters.map((limiter) => limiter.consume('warm')));
    rest.requests.length = 0;
    const decisions = await Promise.all(
      limiters.flatMap((limiter) => Array.from({ length: 10 }, (_, i) => limiter.consume(`k${i}`))),
    );
    expect(decisions.every(({ remaining }) => remaining === 99)).to.be.true;
    expect(sent()).to.deep.equal([['EVALSHA', 'EVALSHA', 'EVALSHA']]);
    expect(rest.requests[0]!.path).to.equal('/pipeline');
  });

  it('has the state of a client that connects by TCP, for any key', async () => {
    const prefix = freshPrefix();
    const [http, tcp] = [storeAt({ prefix }), tcpStore(clients.redis, { prefix })].map((store) =>
      limiterAt(store, { overrides: true, ban: {} }),
    );
    const keys = ['ada', 'ä€😀', '\ud800', '\u0000\n"\\', 'x'.repeat(500), '', '{}%'];
    for (const key of keys) {
      expect((await http!.consume(key)).remaining, key).to.equal(2);
      expect((await tcp!.consume(key)).remaining, key).to.equal(1);
      expect((await http!.consume(key)).remaining, key).to.equal(0);
    }
    await http!.override('ada', { limit: 10 }, { for: '1m', reason: 'ä€😀\n', by: 'olga' });
    expect(await tcp!.overrideOf('ada')).to.deep.equal(await http!.overrideOf('ada'));
    expect((await http!.overrideOf('ada'))!.reason).to.equal('ä€😀\n');
    await tcp!.ban('x', '1m');
    expect((await http!.consume('x')).reason).to.equal('banned');
  });

  it('waits, holds slots and gives units back as by TCP', async () => {
    const store = storeAt();
    const slots = createLimiter({
      store,
      name: 's',
      algorithm: 'concurrency',
      limit: 1,
      lease: '1m',
      ...patient,
    });
    const held = await slots.acquire('ada');
    expect((await slots.acquire('ada')).allowed).to.be.false;
    await held.release();
    expect((await slots.acquire('ada')).allowed).to.be.true;
    const limiter = limiterAt(store);
    const decision = await limiter.consume('ada', { cost: 2 });
    await decision.refund();
    expect((await limiter.peek('ada')).remaining).to.equal(3);
    const once = await limiter.consume('ada', { id: 'one' });
    expect(once.repeated).to.equal(false);
    expect((await limiter.consume('ada', { id: 'one' })).repeated).to.equal(true);
    await limiter.reset('ada');
    expect((await limiter.peek('ada')).remaining).to.equal(3);
  });

  it('takes a client of @upstash/redis, and sends each call once', async () => {
    const client = new UpstashClient({ url: rest.url, token: rest.token, enableTelemetry: false });
    const limiter = limiterAt(redisStore(client, { prefix: freshPrefix() }));
    await limiter.consume('ada');
    rest.instead = () => 'lost';
    rest.requests.length = 0;
    expect((await limiter.consume('ada')).degraded).to.be.true;
    rest.instead = undefined;
    expect(askedFor('ada')).to.have.length(1);
    expect((await limiter.consume('ada')).remaining).to.equal(0);
  });

  it('is open to headgate/admin', async () => {
    const store = storeAt({ publish: '1m' });
    const limiter = limiterAt(store, { ban: {} });
    await limiter.consume('ä€');
    await limiter.ban('bo', '1h', { by: 'olga', reason: 'ä€' });
    const admin = createAdmin(store, { timeout: '10s' });
    for (let i = 0; i < 4; i++) await limiter.consume('ä€');
    const found = [];
    for await (const { key } of admin.limited({ name: 'api', policies: [minute] })) found.push(key);
    for await (const { key, reason } of admin.bans({ name: 'api', scan: true })) found.push(key, reason);
    expect(found).to.deep.equal(['ä€', 'bo', 'ä€']);
    await limiter.close();
  });

  it('publishes nothing unless asked to', async () => {
    const store = storeAt();
    const limiter = limiterAt(store);
    expect(rest.requests).to.deep.equal([]);
    await limiter.close();
  });

  it('checks the server', async () => {
    const findings = await redisStore(upstashRedis({ url: rest.url, token: rest.token }), {
      prefix: freshPrefix(),
    }).check();
    expect(findings.filter(({ level }) => level === 'error')).to.deep.equal([]);
    expect(findings.find(({ code }) => code === 'version')!.message).to.match(/Redis \d/);
  });

  it('returns binary replies, and an error with a code for a command that needs a connection', async () => {
    const commands = upstashRedis({ url: rest.url, token: rest.token }) as UpstashCommands;
    const key = freshPrefix();
    await commands.call('SET', key, 'ä\u0000€', 'PX', '1000');
    expect(await commands.call('GET', key)).to.equal('ä\u0000€');
    const error = await commands.call('SUBSCRIBE', 'a').catch((thrown: HeadgateError) => thrown);
    expect(error).to.include({ code: 'HEADGATE_STORE_ERROR' });
    expect((error as Error).message).to.contain('Redis over HTTP cannot run SUBSCRIBE');
  });

  describe('when the REST API fails', () => {
    interface Failure {
      readonly title: string;
      readonly instead?: Instead;
      readonly code: ErrorCode;
      readonly message: RegExp;
      /** The units that Redis has charged. */
      readonly charged: number;
      readonly path?: '' | '/x';
    }
    const json = (error: string) => JSON.stringify({ error });
    const failures: Failure[] = [
      {
        ...{ title: '401', instead: { status: 401, body: json('Unauthorized') }, charged: 0 },
        ...{ code: 'HEADGATE_STORE_ERROR', message: /status 401: Unauthorized\. .*UPSTASH_REDIS_REST_TOKEN/ },
      },
      {
        ...{ title: '429', instead: { status: 429, body: json('ERR max requests') }, charged: 0 },
        ...{ code: 'HEADGATE_STORE_ERROR', message: /status 429: ERR max requests/ },
      },
      {
        ...{
          title: 'an error of a request with status 200',
          instead: { status: 200, body: '[]' },
          charged: 0,
        },
        ...{ code: 'HEADGATE_STORE_AWAY', message: /status 200/ },
      },
      {
        ...{ title: '500', instead: { status: 500, body: 'oops' }, charged: 0 },
        ...{ code: 'HEADGATE_STORE_AWAY', message: /status 500\./ },
      },
      {
        ...{ title: 'a page instead of JSON', instead: { status: 200, body: '<html>' }, charged: 0 },
        ...{ code: 'HEADGATE_STORE_AWAY', message: /status 200/ },
      },
      {
        ...{ title: 'a connection that breaks before the answer', instead: 'lost', charged: 1 },
        ...{ code: 'HEADGATE_STORE_AWAY', message: /failed: / },
      },
      {
        ...{
          title: 'an error of the command',
          instead: { status: 400, body: json('OOM command not allowed') },
        },
        ...{ charged: 0, code: 'HEADGATE_STORE_ERROR', message: /OOM command not allowed/ },
      },
    ];
    for (const { title, instead, code, message, charged } of failures)
      it(`${title}: the error has a code, nothing is sent again, and localShare limits`, async () => {
        const limiter = limiterAt(storeAt({ localDenials: false }), {
          limit: 4,
          localShare: 0.5,
          onHealth: () => {},
        });
        await limiter.consume('other');
        rest.requests.length = 0;
        rest.instead = () => instead;
        const decisions = [];
        for (let i = 0; i < 3; i++) decisions.push(await limiter.consume('ada'));
        expect(decisions.map(({ allowed }) => allowed)).to.deep.equal([true, true, false]);
        expect(decisions.every(({ degraded }) => degraded)).to.be.true;
        const { lastError } = limiter.health;
        expect(lastError).to.include({ code });
        expect(lastError!.message).to.match(message).and.not.contain(rest.token);
        expect(askedFor('ada')).to.have.length(3);
        rest.instead = undefined;
        expect((await limiter.peek('ada')).remaining).to.equal(4 - 3 * charged);
        await limiter.close();
      });

    it('a redirect is refused, so that no other server receives the keys, and nothing is charged', async () => {
      for (const status of [301, 302, 303, 307, 308]) {
        let received = 0;
        const other = createServer((_, res) => void (received++, res.end('{"result":[]}')));
        await once(other.listen(0, '127.0.0.1'), 'listening');
        const location = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`;
        const redirecting = createServer((_, res) => void res.writeHead(status, { location }).end());
        await once(redirecting.listen(0, '127.0.0.1'), 'listening');
        const url = `http://127.0.0.1:${(redirecting.address() as AddressInfo).port}`;
        const limiter = limiterAt(storeAt({}, url), { onHealth: () => {} });
        expect((await limiter.consume('ada')).degraded).to.be.true;
        expect(limiter.health.lastError).to.include({ code: 'HEADGATE_STORE_ERROR' });
        expect(limiter.health.lastError!.message).to.contain(`status ${status}`).and.contain('redirects');
        expect(received).to.equal(0);
        await limiter.close();
        for (const server of [other, redirecting]) server.closeAllConnections();
        for (const server of [other, redirecting]) server.close();
      }
    });

    it('no server: the error has the reason', async () => {
      const url = `http://127.0.0.1:${await freePort()}`;
      const limiter = limiterAt(storeAt({}, url), { onHealth: () => {} });
      expect((await limiter.consume('ada')).degraded).to.be.true;
      expect(limiter.health.lastError).to.include({ code: 'HEADGATE_STORE_AWAY' });
      expect(limiter.health.lastError!.message).to.contain('ECONNREFUSED').and.contain(url);
      await limiter.close();
    });

    it('no answer: localShare limits after the timeout, and the request is aborted', async () => {
      const signals: AbortSignal[] = [];
      const send: typeof fetch = (input, init) => {
        signals.push(init!.signal!);
        return fetch(input, init);
      };
      const commands = upstashRedis({ url: rest.url, token: rest.token, fetch: send });
      const store = redisStore(commands, { prefix: freshPrefix() });
      const limiter = limiterAt(store, {
        limit: 4,
        localShare: 0.5,
        timeout: 20,
        connectTimeout: 20,
        onHealth: () => {},
      });
      rest.instead = () => 'stalled';
      const decisions = [];
      for (let i = 0; i < 3; i++) decisions.push(await limiter.consume('ada'));
      expect(decisions.map(({ allowed, degraded }) => [allowed, degraded])).to.deep.equal([
        [true, true],
        [true, true],
        [false, true],
      ]);
      expect(limiter.health.lastError).to.include({ code: 'HEADGATE_STORE_TIMEOUT' });
      await new Promise((resolve) => signals[0]!.addEventListener('abort', resolve));
      await limiter.close();
    });
  });

  it('a clock that differs from the server’s costs one more request, once', async () => {
    const { now } = Date;
    const limiter = limiterAt(storeAt());
    try {
      Date.now = () => now() - 3_600_000;
      await limiter.consume('ada');
    } finally {
      Date.now = now;
    }
    const before = rest.requests.length;
    expect(before).to.be.within(2, 3);
    expect((await limiter.consume('ada')).remaining).to.equal(1);
    expect(rest.requests.length - before).to.equal(1);
  });

  // All suites run in test/slow/upstash.test.ts.
  describeChecks('over HTTP', contractChecks(restSubject(() => rest, 1)));

  const wrong: Record<string, readonly [object, RegExp]> = {
    'no address': [{ token: 'x' }, /url: missing/],
    'an address of TCP': [{ url: 'redis://host:6379', token: 'x' }, /url: .*https:/],
    'an address with a password': [{ url: 'https://a:b@host', token: 'x' }, /url: /],
    'no token': [{ url: 'https://host' }, /token: missing.*UPSTASH_REDIS_REST_TOKEN/],
    'a token with a line end': [{ url: 'https://host', token: 'secret\n' }, /token: (?!.*secret)/],
    'an unknown option': [{ url: 'https://host', token: 'x', prefix: 'y' }, /prefix/],
  };
  for (const [title, [options, message]] of Object.entries(wrong))
    it(`${title} is refused`, () => {
      expect(() => upstashRedis(options as { url: string; token: string })).to.throw(HeadgateError, message);
    });
});
