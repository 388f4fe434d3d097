// Hashed keys on the command line: commands with the secret find them, and commands without it report the secret as missing.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

const SECRET = 'a secret of the tests';

describe('hashed keys on the command line', () => {
  const kind = serverKinds[0]!;
  const folder = mkdtempSync(join(tmpdir(), 'headgate-'));
  const file = join(folder, 'secret');
  writeFileSync(file, `${SECRET}\n`);
  after(() => rmSync(folder, { recursive: true }));

  const open = async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients[kind], { prefix, hashKeys: SECRET, counts: { sample: 1 }, ...TELLING });
    const policies = [
      { name: 'ip', limit: 2, window: '1h' },
      { name: 'account', limit: 2, window: '1h', by: 'account' },
    ] as const;
    const limiter = limiterOn(store, { name: 'api', policies, ban: {} });
    const where = ['--redis', servers[kind].url, '--prefix', prefix];
    await told(where, 'api');
    const close = async () => {
      await limiter.close();
      await store.close?.();
    };
    return {
      limiter,
      where,
      of: ['--name', 'api', ...where],
      with: ['--hash-keys-file', file],
      prefix,
      close,
    };
  };

  it('peek, reset, ban, unban and bans import know them by the secret', async () => {
    const { limiter, of, where, with: secret, close } = await open();
    await limiter.consume({ key: '203.0.113.7', account: 'ada' }, { cost: 2 });
    expect(await json('peek', '203.0.113.7', ...of, ...secret)).to.include({ allowed: false, stored: true });
    const account = ['ada', '--dimension', 'account', ...of, ...secret];
    expect(await json('peek', ...account)).to.include({ allowed: false });
    expect(await json('reset', ...account)).to.deep.include({ policies: ['account'] });
    expect(await json('reset', '203.0.113.7', '--scan', ...of, ...secret)).to.deep.include({
      policies: ['ip'],
    });
    expect(await limiter.peek({ key: '203.0.113.7' })).to.include({ remaining: 2 });
    await json('ban', '203.0.113.0/30', '1h', '--reason', 'spam', ...of, ...secret);
    expect(await limiter.peek('203.0.113.1')).to.include({ reason: 'banned' });
    await json('unban', '203.0.113.1', ...of, ...secret);
    expect(await limiter.peek('203.0.113.1')).to.include({ allowed: true });
    const stdin = Readable.from(['{"kind":"banned","name":"api","key":"2001:db8::1","bannedForMs":60000}']);
    expect((await headgate(['bans', 'import', '-', ...where, ...secret], { stdin })).code).to.equal(0);
    expect(await limiter.peek('2001:db8::1')).to.include({ reason: 'banned' });
    await close();
  });

  it('list, top and the log of bans show hashes, by which unban and peek take them', async () => {
    const { limiter, of, where, with: secret, prefix, close } = await open();
    await json('ban', '203.0.113.7', '1h', '--reason', 'spam', ...of, ...secret);
    await json('ban', '198.51.100.0/30', '1h', ...of, ...secret);
    const bans = await jsonLines('list', '--banned', ...of);
    const spam = bans.find(({ reason }) => reason === 'spam')!;
    expect(spam).to.have.property('keyHash').with.length(22);
    const hash = `hmac:${String(spam.keyHash)}`;
    expect((await headgate(['list', '--banned', ...of])).stdout).to.include(hash);
    expect((await headgate(['bans', 'log', ...of])).stdout)
      .to.include(hash)
      .and.not.match(/203\.0\.113|198\.51\.100/);
    expect(await json('peek', hash, ...of, ...secret)).to.include({ reason: 'banned', banReason: 'spam' });
    const exported = (await headgate(['bans', 'export', ...of])).stdout;
    await json('unban', hash, ...of, ...secret);
    expect(await limiter.peek('203.0.113.7')).to.include({ allowed: true });
    await headgate(['bans', 'import', '-', ...where, ...secret], { stdin: Readable.from([exported]) });
    expect(await limiter.peek('203.0.113.7')).to.include({ reason: 'banned' });
    interface Top {
      readonly limiters: readonly { readonly keys: readonly object[] }[];
    }
    let top: Top;
    do {
      await limiter.peek('198.51.100.9');
      await limiter.consume('198.51.100.9');
      top = (await json('top', '--once', ...where)) as Top;
    } while (!top.limiters[0]?.keys[0]);
    expect(top.limiters[0].keys[0]).to.have.property('keyHash').with.length(22);
    const names = await clients[kind].keys(`${prefix}:*`);
    expect(names.filter((name) => /203\.0\.113|198\.51\.100/.test(name))).to.deep.equal([]);
    await close();
  });

  it('are refused without the secret, with another one, and with one where keys are in clear', async () => {
    const { of, close } = await open();
    const refused = async (expected: RegExp, env = {}, given = of) => {
      for (const words of [
        ['peek', 'x'],
        ['reset', 'x'],
        ['ban', 'x', '1h'],
        ['unban', 'x'],
      ]) {
        const { code, stderr } = await headgate([...words, ...given], { env });
        expect(code).to.equal(2);
        expect(stderr).to.match(expected).and.not.include(SECRET);
      }
    };
    await refused(/hashes its keys\. .*--hash-keys-file/);
    await refused(/with another secret/, { HEADGATE_HASH_KEYS: `${SECRET} (another)` });
    await refused(/HEADGATE_HASH_KEYS: .*5 characters/, { HEADGATE_HASH_KEYS: 'short' });
    await refused(/--hash-keys-file: .*ENOENT/, {}, [...of, '--hash-keys-file', `${file}.not`]);
    const env = { HEADGATE_HASH_KEYS: SECRET };
    expect((await headgate(['peek', 'x', ...of], { env })).stderr).to.equal('');
    await close();
    const prefix = freshPrefix();
    const store = redisStore(clients[kind], { prefix, ...TELLING });
    const limiter = limiterOn(store, { name: 'api', limit: 2, window: '1h', ban: {} });
    const where = ['--redis', servers[kind].url, '--prefix', prefix];
    await told(where, 'api');
    await refused(/does not hash its keys/, env, ['--name', 'api', ...where]);
    await limiter.close();
    await store.close?.();
  });
});
