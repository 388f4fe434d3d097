// redisStore({ hashKeys }): Redis holds no address and no account in clear. The oracle decides with hashed keys beside every other feature.
import { createHash, createHmac } from 'node:crypto';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { compileHashing } from '../../src/stores/redis/secret-keys.js';
import { KeyMaker, parseStateKey } from '../../src/stores/keys.js';
import { serverKinds, servers } from '../support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../support/stores.js';

const SECRET = 'a secret of the tests';

describe('hashed keys', () => {
  // A different hash would forget all counts and bans at an upgrade, and the command line would find no key.
  it('are the same in each version: HMAC-SHA256 with a derived key, the first 16 bytes', () => {
    const key = createHmac('sha256', SECRET).update('headgate keys').digest();
    const expectedHash = createHmac('sha256', key).update(Buffer.from('203.0.113.7', 'utf16le')).digest();
    const hash = expectedHash.subarray(0, 16).toString('base64url');
    expect(compileHashing(SECRET).text('203.0.113.7'))
      .to.equal(`%#${hash}`)
      .and.to.equal('%#mQlT3q4h16Jz09fPCY9g8w');
  });

  it('of long keys without a secret are the same in each version: SHA-256 of UTF-16', () => {
    const long = '\u00e4'.repeat(200);
    const hash = createHash('sha256').update(Buffer.from(long, 'utf16le')).digest('base64url');
    expect(compileHashing(false).text(long)).to.equal(`%#${hash}`);
  });

  it('differ for keys that differ in a letter, its case, a space, NUL, a surrogate or a composed form', () => {
    const keys = [
      '',
      'a',
      'A',
      'a ',
      ' a',
      'b',
      'ab',
      'ba',
      '\0',
      'a\0',
      '\u0100',
      '\ud800',
      '\ud801',
      '\ufffd',
    ];
    keys.push('\u00e9', 'e\u0301', '}', '{', '%', '%#a', `${'k'.repeat(500)}a`, `${'k'.repeat(500)}b`);
    const { text } = compileHashing(SECRET);
    expect(new Set(keys.map((key) => text(key))).size).to.equal(keys.length);
  });

  for (const kind of serverKinds) {
    it(`send nothing to ${kind} that reveals a key`, async () => {
      const client = new Redis(servers[kind].port);
      const commands: string[] = [];
      const send = client.sendCommand.bind(client);
      client.sendCommand = (command, ...rest) => {
        commands.push([command.name, ...command.args.map(String)].join(' '));
        return send(command, ...rest);
      };
      const options = { prefix: freshPrefix(), hashKeys: SECRET, localDenials: false } as const;
      const store = redisStore(client, { ...options, publish: '5ms', counts: { sample: 1 } });
      const limiter = createLimiter({
        name: 'api',
        store,
        timeout: '1m',
        policies: [
          { name: 'ip', limit: 2, window: '1h' },
          { name: 'bucket', algorithm: 'token-bucket', limit: 5, window: '1h' },
          { name: 'account', limit: 3, window: '1h', by: 'account' },
          { name: 'slots', algorithm: 'concurrency', limit: 9, lease: '1m', by: 'org' },
        ],
        ban: { after: 3, within: '1h', for: '1h' },
      });
      const key = { key: '203.0.113.7', account: 'ada@example.org', org: 'k'.repeat(300) };
      await limiter.consume(key);
      await (await limiter.consume(key)).refund();
      for (let i = 0; i < 5; i++) await limiter.consume(key);
      await limiter.peek(key);
      await limiter.ban(key, '1h');
      await limiter.unban(key);
      await limiter.reset(key);
      for (const word of ['{limiters}', '{bans}', '{top}'])
        while (!commands.some((command) => command.includes(word)))
          await new Promise((resolve) => setTimeout(resolve, 10));
      await limiter.close();
      await store.close?.();
      await client.quit();
      expect(commands.filter((command) => /203\.0\.113|ada@|kkkk/.test(command))).to.deep.equal([]);
    });

    it(`share state on ${kind} with the same secret only`, async () => {
      const prefix = freshPrefix();
      const open = (hashKeys: string | false) => {
        const store = redisStore(clients[kind], { prefix, hashKeys, localDenials: false });
        return limiterOn(store, { name: 'api', limit: 5, window: '1h' });
      };
      await open(SECRET).consume('ada', { cost: 3 });
      expect((await open(SECRET).peek('ada')).remaining).to.equal(2);
      expect((await open(`${SECRET} (another)`).peek('ada')).remaining).to.equal(5);
      expect((await open(false).peek('ada')).remaining).to.equal(5);
    });
  }

  it('are short for any key, and keep their hash tag', () => {
    const { text } = compileHashing(SECRET);
    const set = limiterOn(redisStore(clients[serverKinds[0]!]), {
      name: 'api',
      slotBy: 'org',
      policies: [
        { name: 'account', limit: 1, window: '1h', by: 'account' },
        { name: 'org', limit: 1, window: '1h', by: 'org' },
      ],
    }).set;
    for (const key of ['', 'ada', '}{', '\ud800', 'k'.repeat(10_000)]) {
      const keys: string[] = [];
      new KeyMaker('hg', set, text).push(keys, [key, 'acme']);
      expect(new Set(keys.map((redisKey) => /\{([^}]*)\}/.exec(redisKey)![1])).size).to.equal(1);
      for (const redisKey of keys) {
        expect(redisKey.length).to.be.lessThan(120);
        expect(parseStateKey('hg', redisKey)).to.deep.include({ name: 'api' });
      }
      const [account] = keys.map((redisKey) => parseStateKey('hg', redisKey)!);
      expect(account).to.deep.include({ by: 'account', key: { hash: text(key).slice(2) } });
      expect(account!.slot).to.deep.equal({ by: 'org', key: { hash: text('acme').slice(2) } });
    }
  });

  it('require a secret, and never show it', () => {
    const open = (hashKeys: unknown) => () =>
      redisStore(clients[serverKinds[0]!], { hashKeys } as { hashKeys: string });
    for (const [secret, message] of [
      ['fifteen letters', /only 15 characters/],
      [`${SECRET}\n`, /secret\.trim\(\)/],
      [undefined, /Is the environment variable set/],
      [true, /not a string/],
      [['a secret of the tests'], /not a string/],
    ] as const) {
      expect(open(secret))
        .to.throw(message)
        .with.property('message')
        .that.matches(/^redisStore\.hashKeys: /)
        .and.does.not.include('fifteen letters')
        .and.does.not.include(SECRET);
    }
    expect(open(false)).not.to.throw();
  });
});
