// The log with several processes, a process that is killed, and a user of Redis with few rights.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix, limiterOn } from '../support/stores.js';
import { compileChild } from '../support/programs.js';
import { servers } from '../support/shared-servers.js';
import { all, until } from './stores.js';

async function start(prefix: string, name: string): Promise<ChildProcess> {
  const program = await compileChild('../admin/child.ts');
  return fork(program, [String(servers.redis.port), prefix, name], { execArgv: [] });
}

describe('the log of changes on Redis', () => {
  it('has the changes of several processes in the order of the clock, and survives a process that is killed', async () => {
    const prefix = freshPrefix();
    const admin = createAdmin(clients.redis, { prefix });
    const children = await Promise.all(['a', 'b', 'c'].map((name) => start(prefix, name)));
    try {
      await until(async () => (await all(admin.log())).length > 30);
      children[0]!.kill('SIGKILL');
      await once(children[0]!, 'exit');
      const before = (await all(admin.log())).length;
      await until(async () => (await all(admin.log())).length > before + 20);
    } finally {
      for (const child of children) child.kill('SIGKILL');
      const alive = children.filter(({ exitCode, signalCode }) => (exitCode ?? signalCode) === null);
      await Promise.all(alive.map((child) => once(child, 'exit')));
    }
    const log = await all(admin.log());
    const times = log.map(({ at }) => at.getTime());
    expect(times).to.deep.equal(times.toSorted((a, b) => b - a));
    for (const change of log)
      expect(change).to.include({ action: 'ban', name: 'api', keys: 1, forMs: 60_000, reason: 'a test' });
    // Each process bans k0, k1, k2 ... in this order, and waits for each ban. The log misses none but the last.
    for (const by of ['a', 'b', 'c']) {
      const keys = log.filter((change) => change.by === by).map(({ key }) => key);
      expect(keys.reverse()).to.deep.equal(keys.map((_, i) => `${by}${i}`));
    }
    for (const key of await clients.redis.keys(`${prefix}:*`)) {
      expect(await clients.redis.pttl(key), key).to.be.greaterThan(0);
      await clients.redis.del(key);
    }
  });

  it('an override that cannot be recorded is made and reported', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix, publish: '10ms' });
    const limiter = limiterOn(store, { name: 'api', limit: 100, window: '1m', overrides: true });
    const rights = ['reset', 'on', '>password', `~${prefix}:*`, '+@all', '-xadd', '-zadd', '-hset'];
    await clients.redis.call('ACL', 'SETUSER', 'unlisted', ...rights);
    const client = new Redis(servers.redis.port, { username: 'unlisted', password: 'password' });
    try {
      const admin = createAdmin(client, { prefix });
      await until(async () => (await admin.limiters()).limiters.length > 0);
      const of = { name: 'api', by: 'ada' };
      const changes = [
        await admin.override('a', '9/1m', of),
        await admin.overrideAll('8/1m', of),
        ...(await admin.overrideMany(
          ['b', 'c'].map((key) => ({ key, change: '7/1m' })),
          of,
        )),
        await admin.removeOverride('a', of),
      ];
      for (const { warnings } of changes) {
        expect(warnings.map(({ code }) => code)).to.deep.equal(['NOT_NOTED']);
        expect(warnings[0]!.message).to.match(/is in force, but neither indexed nor logged: .+/);
      }
      expect((await limiter.overrideOf('b'))!.change).to.equal('7/1m');
      expect((await createAdmin(clients.redis, { prefix }).override('d', '9/1m', of)).warnings).to.deep.equal(
        [],
      );
    } finally {
      client.disconnect();
      await clients.redis.call('ACL', 'DELUSER', 'unlisted');
      await limiter.close();
      await store.close?.();
      for (const key of await clients.redis.keys(`${prefix}:*`)) await clients.redis.del(key);
    }
  });

  it('a user with few rights: reading works, and a change that cannot be logged is made and reported', async () => {
    const prefix = freshPrefix();
    await clients.redis.call(
      ...['ACL', 'SETUSER', 'few', 'reset', 'on', '>password', `~${prefix}:{api:*`, `%R~${prefix}:*`],
      ...[
        '+eval',
        '+evalsha',
        '+time',
        '+get',
        '+set',
        '+del',
        '+pttl',
        '+scan',
        '+zrangebyscore',
        '+xrevrange',
      ],
      ...['+pexpireat', '+info', '+ping', '+hmget', '+zscore', '+zcard', '+zscan'],
    );
    const client = new Redis(servers.redis.port, { username: 'few', password: 'password' });
    try {
      const admin = createAdmin(client, { prefix });
      const { warnings } = await admin.ban('a', '1h', { name: 'api', force: true, by: 'ada' });
      expect(warnings.map(({ code }) => code)).to.deep.equal(['UNKNOWN_SCOPE', 'NOT_NOTED']);
      expect((await all(admin.bans({ scan: true }))).map(({ key, by }) => [key, by])).to.deep.equal([
        ['a', null],
      ]);
      expect(await all(admin.log())).to.deep.equal([]);
      expect(await admin.usage()).to.deep.equal([{ name: 'api', states: 1, bytes: null }]);
    } finally {
      client.disconnect();
      await clients.redis.call('ACL', 'DELUSER', 'few');
      for (const key of await clients.redis.keys(`${prefix}:*`)) await clients.redis.del(key);
    }
  });
});
