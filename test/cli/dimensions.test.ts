// Keys of other dimensions on the command line.
import { expect } from 'chai';
import type { Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

const POLICIES: readonly Policy[] = [
  { name: 'ip', limit: 3, window: '1h' },
  { name: 'account', limit: 2, window: '1h', by: 'account' },
];

for (const kind of serverKinds) {
  describe(`policies by several keys on the command line, on ${kind}`, () => {
    const open = async (options = {}) => {
      const prefix = freshPrefix();
      const store = redisStore(clients[kind], { prefix, ...TELLING });
      const limiter = limiterOn(store, {
        name: 'api',
        policies: POLICIES,
        ban: { by: 'account' },
        ...options,
      });
      const where = ['--redis', servers[kind].url, '--prefix', prefix];
      await limiter.consume({ key: '203.0.113.7', account: '203.0.113.7', org: 'x' }, { cost: 2 });
      await told(where, 'api');
      return { limiter, where, of: ['--name', 'api', ...where], store };
    };
    const byAccount = { policies: [...POLICIES, { name: 'org', limit: 9, window: '1h', by: 'org' }] };

    it('peek and reset are of one dimension', async () => {
      const { limiter, of, store } = await open(byAccount);
      const account = ['203.0.113.7', '--dimension', 'account', ...of];
      expect(await json('peek', ...account)).to.deep.include({ allowed: false, dimension: 'account' });
      const address = (await json('peek', '203.0.113.7', ...of)) as { policies: object[] };
      expect(address).to.include({ allowed: true }).and.not.have.property('dimension');
      expect(address.policies).to.have.length(1);
      expect(await json('reset', ...account)).to.deep.include({
        policies: ['account'],
        dimension: 'account',
      });
      expect((await limiter.peek({ key: '203.0.113.7' })).remaining).to.equal(1);
      expect((await limiter.peek({ account: '203.0.113.7' })).remaining).to.equal(2);
      expect((await headgate(['peek', 'x', '--dimension', 'user', ...of])).stderr).to.match(
        /one of: key, account, org/,
      );
      expect((await headgate(['peek', 'x', '--dimension', 'a b', ...of])).stderr).to.match(/--dimension/);
      await limiter.close();
      await store.close?.();
    });

    it('bans are of the dimension that the limiter bans by', async () => {
      const { limiter, of, where, store } = await open(byAccount);
      expect((await headgate(['ban', 'ada', '1h', ...of])).stderr).to.match(/--dimension account/);
      await json('ban', 'ada', '1h', '--dimension', 'account', '--reason', 'spam', ...of);
      expect(await limiter.peek({ key: 'x', account: 'ada' })).to.include({ reason: 'banned' });
      const [ban] = await jsonLines('list', '--banned', ...of);
      expect(ban).to.include({ key: 'ada', dimension: 'account', reason: 'spam' });
      expect((await headgate(['list', ...of])).stdout).to.match(/^account ada +banned/m);
      expect((await jsonLines('bans', 'log', ...of))[0]).to.include({ key: 'ada', dimension: 'account' });
      const exported = (await headgate(['bans', 'export', ...of])).stdout;
      await json('unban', 'ada', '--dimension', 'account', ...of);
      expect(await limiter.peek({ account: 'ada' })).to.include({ allowed: true });
      const { Readable } = await import('node:stream');
      await headgate(['bans', 'import', '-', ...where], { stdin: Readable.from([exported]) });
      expect(await limiter.peek({ account: 'ada' })).to.include({ reason: 'banned' });
      await limiter.close();
      await store.close?.();
    });

    it('list tells each key with its dimension, judged by its own policies', async () => {
      const { limiter, of, store } = await open(byAccount);
      const finds = await jsonLines('list', '--limited', ...of);
      expect(finds).to.have.length(1);
      expect(finds[0]).to.include({
        kind: 'limited',
        dimension: 'account',
        key: '203.0.113.7',
        policy: 'account',
      });
      const { stdout } = await headgate(['limits', ...of]);
      expect(stdout).to.contain('by hand, by account');
      await limiter.close();
      await store.close?.();
    });

    it('keys within others are shown, and not guessed', async () => {
      const { limiter, of, store } = await open({ ...byAccount, slotBy: 'org' });
      expect((await headgate(['reset', 'ada', '--dimension', 'account', ...of])).stderr).to.match(
        /slotBy: 'org'/,
      );
      const [find] = await jsonLines('list', '--limited', ...of);
      expect(find).to.include({ dimension: 'account', key: '203.0.113.7', within: 'org x' });
      await limiter.close();
      await store.close?.();
    });
  });
}

describe('replay of policies by several keys', () => {
  it('is refused, and that of one dimension is by the key of the log', async () => {
    const line = '203.0.113.7 - ada [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 5\n';
    const { Readable } = await import('node:stream');
    const replay = (policies: readonly Policy[]) =>
      headgate(['--json', 'replay', '-', '--key', 'user', '--policy', JSON.stringify(policies)], {
        stdin: Readable.from([line.repeat(3)]),
      });
    expect((await replay(POLICIES)).stderr).to.match(/several dimensions \(key, account\)/);
    expect(JSON.parse((await replay(POLICIES.slice(1))).stdout)).to.have.property('denied');
  });
});
