// Clients with hooks and mappings of their users: hooks for errors and replies see nothing of Headgate's, and mappings do not reach it.
import { expect } from 'chai';
import { Command, Redis, type RedisOptions } from 'ioredis';
import { Command as Command5, Redis as Redis5 } from 'ioredis5';
import { Command as ValkeyCommand, Redis as Valkey } from 'iovalkey';
import { createClient, RESP_TYPES } from 'redis';
import { createClient as createClient5 } from 'redis5';
import { createLimiter, type Store } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore, type RedisClient } from 'headgate/redis';
import { startServer, type TestServer } from '../support/servers.js';
import { freshPrefix } from '../support/stores.js';

interface Made {
  readonly client: RedisClient;
  end(): unknown;
}

type IoredisClass = new (options: RedisOptions) => Redis;

const ioredisKinds: Readonly<Record<string, IoredisClass>> = {
  'ioredis 6': Redis,
  'ioredis 5': Redis5 as unknown as IoredisClass,
  iovalkey: Valkey as unknown as IoredisClass,
};

/** A limiter of each kind of signal: a deadline, the period of a calendar, and overrides that begin while others decide. */
async function decide(store: Store): Promise<void> {
  const options = { store, timeout: '5s', onStoreError: 'throw', warnings: false } as const;
  const plain = createLimiter({ ...options, name: 'plain', limit: 5, window: '1h' });
  const left = [];
  for (let i = 0; i < 6; i++) left.push((await plain.consume('ada')).remaining);
  expect(left).to.deep.equal([4, 3, 2, 1, 0, 0]);
  const policies = ['calendar 10/hour', '100/1h'];
  const calendar = createLimiter({ ...options, name: 'calendar', policies });
  expect((await calendar.consume('ada')).remaining).to.equal(9);
  const live = createLimiter({ ...options, name: 'live', limit: 5, window: '1h', overrides: true });
  const other = createLimiter({ ...options, name: 'live', limit: 5, window: '1h', overrides: true });
  await Promise.all(Array.from({ length: 5 }, (_, i) => other.consume(`key ${i}`)));
  await live.override('key 1', '50/1h');
  const answers = await Promise.all(Array.from({ length: 5 }, (_, i) => other.consume(`key ${i}`)));
  expect(answers.map(({ remaining }) => remaining)).to.deep.equal([3, 48, 3, 3, 3]);
  const admin = createAdmin(store);
  await admin.ban('eve', '1h', { name: 'plain', force: true });
  const bans = [];
  for await (const { key } of admin.bans()) bans.push(key);
  expect(bans).to.deep.equal(['eve']);
  expect((await admin.check()).filter(({ level }) => level === 'error')).to.deep.equal([]);
  for (const limiter of [plain, calendar, live, other]) await limiter.close();
}

describe('clients with hooks', function () {
  this.timeout(30_000);
  let server: TestServer;
  let control: Redis;
  before(async () => {
    server = await startServer('redis');
    control = new Redis(server.port);
  });
  after(async () => {
    control.disconnect();
    await server.stop();
  });

  const connections = async (): Promise<number> =>
    Number(/total_connections_received:(\d+)/.exec(await control.info('stats'))![1]);

  for (const [name, Client] of Object.entries(ioredisKinds)) {
    for (const answer of [2, 1, true] as const) {
      it(`reconnectOnError: () => ${answer} of ${name} sees no error of Headgate's, and limits hold after SCRIPT FLUSH`, async () => {
        await control.script('FLUSH');
        const before = await connections();
        const seen: string[] = [];
        const client = new Client({
          host: '127.0.0.1',
          port: server.port,
          retryStrategy: () => 10,
          showFriendlyErrorStack: true,
          reconnectOnError: ({ message }) => {
            seen.push(message);
            return answer;
          },
        });
        const store = redisStore(client, { prefix: freshPrefix(), publish: false });
        await decide(store);
        expect(seen.filter((message) => /HEADGATE|NOSCRIPT/.test(message))).to.deep.equal([]);
        expect((await connections()) - before).to.equal(1 + seen.length);
        const limiter = createLimiter({ store, name: 'again', limit: 1000, window: '1h' });
        await limiter.consume('ada');
        await control.script('FLUSH');
        // The hook for the error about the unknown script ends a connection, perhaps twice. After that, limits hold again.
        for (let inARow = 0; inARow < 20;) {
          inARow = (await limiter.consume('ada')).degraded ? 0 : inARow + 1;
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        await limiter.close();
        await store.close?.();
        client.disconnect();
      });
    }
  }

  it("a process' clock in another period than the server's is no error for hooks, for any kind of call", async () => {
    const seen: string[] = [];
    const client = new Redis({ host: '127.0.0.1', port: server.port });
    client.options.reconnectOnError = ({ message }) => seen.push(message) > 0;
    const store = redisStore(client, { prefix: freshPrefix(), publish: false });
    const { now } = Date;
    Date.now = () => now() - 100 * 86_400_000;
    try {
      for (const policies of [['calendar 10/day'], ['calendar 10/day', '100/1h']]) {
        const name = `of ${policies.length}`;
        const limiter = createLimiter({ store, name, policies, timeout: '5s', onStoreError: 'throw' });
        expect((await limiter.consume('ada', { cost: 4 })).remaining).to.equal(6);
        await limiter.refund('ada', 3);
        expect((await limiter.usage('ada')).policies[0]!.used).to.equal(1);
        await limiter.close();
      }
    } finally {
      Date.now = now;
    }
    expect(seen).to.deep.equal([]);
    await store.close?.();
    client.disconnect();
  });

  const clients: Record<string, () => Made | Promise<Made>> = {
    'ioredis with every option that changes commands or replies': () => {
      const client = new Redis({
        port: server.port,
        ...{
          stringNumbers: true,
          enableAutoPipelining: true,
          keyPrefix: 'app:',
          showFriendlyErrorStack: true,
        },
      });
      return { client, end: () => client.disconnect() };
    },
    async 'node-redis with RESP 3'() {
      const client = await createClient({ url: server.url, RESP: 3 }).connect();
      return { client: client as RedisClient, end: () => client.destroy() };
    },
    async 'node-redis with RESP 2'() {
      const client = await createClient({ url: server.url, RESP: 2 }).connect();
      return { client: client as RedisClient, end: () => client.destroy() };
    },
    async 'node-redis 5'() {
      const client = await createClient5({ url: server.url }).connect();
      return { client: client as unknown as RedisClient, end: () => client.destroy() };
    },
    async 'node-redis with mappings for all commands'() {
      const typeMapping = {
        [RESP_TYPES.BLOB_STRING]: Buffer,
        [RESP_TYPES.SIMPLE_STRING]: Buffer,
        [RESP_TYPES.NUMBER]: String,
      };
      const client = await createClient({ url: server.url, commandOptions: { typeMapping } }).connect();
      return { client: client as unknown as RedisClient, end: () => client.destroy() };
    },
    async 'node-redis as withTypeMapping() returns it'() {
      const client = await createClient({ url: server.url, RESP: 3 }).connect();
      const mapped = client.withTypeMapping({
        [RESP_TYPES.BLOB_STRING]: Buffer,
        [RESP_TYPES.NUMBER]: BigInt as never,
        [RESP_TYPES.MAP]: Array,
      });
      return { client: mapped as unknown as RedisClient, end: () => client.destroy() };
    },
  };
  for (const [name, make] of Object.entries(clients)) {
    it(`${name}: decisions, overrides and the administration as with the defaults`, async () => {
      const { client, end } = await make();
      const store = redisStore(client, { prefix: freshPrefix(), publish: false });
      try {
        await decide(store);
      } finally {
        await store.close?.();
        end();
      }
    });
  }

  it('transformers of replies do not reach the scripts', async () => {
    for (const each of [Command, Command5, ValkeyCommand])
      for (const name of ['eval', 'evalsha']) each.setReplyTransformer(name, () => 'transformed');
    try {
      for (const Client of Object.values(ioredisKinds)) {
        const client = new Client({ host: '127.0.0.1', port: server.port });
        const store = redisStore(client, { prefix: freshPrefix(), publish: false });
        await decide(store);
        await store.close?.();
        client.disconnect();
      }
    } finally {
      for (const each of [Command, Command5, ValkeyCommand])
        for (const name of ['eval', 'evalsha'])
          delete (each as unknown as { _transformer: { reply: Record<string, unknown> } })._transformer.reply[
            name
          ];
    }
  });
});
