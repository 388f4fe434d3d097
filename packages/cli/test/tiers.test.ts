// `--tier` for published tiers and for files.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

const tiers = { free: ['m=10/1m'], pro: ['m=100/1m', 'burst=token-bucket 20/1h'] };

for (const kind of serverKinds) {
  describe(`--tier on ${kind}`, () => {
    let where: string[];
    let limiter: Limiter;
    let folder: string;

    beforeEach(async () => {
      const prefix = freshPrefix();
      where = ['--redis', servers[kind].url, '--prefix', prefix];
      folder = mkdtempSync(join(tmpdir(), 'headgate-'));
      limiter = limiterOn(redisStore(clients[kind], { prefix, ...TELLING }), { name: 'api', tiers });
      await told(where, 'api');
      await limiter.consume('user:1', { cost: 10, tier: 'free' });
      await limiter.consume('user:1', { cost: 5, tier: 'pro' });
    });
    afterEach(() => {
      rmSync(folder, { recursive: true });
      return limiter.close();
    });

    it('limits shows them', async () => {
      const { limiters } = (await json('limits', ...where)) as { limiters: { configurations: object[] }[] };
      expect(limiters[0]!.configurations[0]).to.deep.include({ policies: [], tiers, dynamic: false });
      const { stdout } = await headgate(['limits', ...where]);
      expect(stdout).to.contain('free: m=10/1m; pro: m=100/1m, burst=token-bucket 20/1h');
    });

    it('peek answers like the limiter for a request of the tier', async () => {
      const peek = (...more: string[]) => json('peek', 'user:1', '--name', 'api', ...where, ...more);
      expect(await peek('--tier', 'free')).to.include({ allowed: false, reason: 'quota-exceeded' });
      const { policies } = (await peek('--tier', 'pro')) as {
        policies: { name: string; remaining: number }[];
      };
      expect(policies.map((policy) => [policy.name, policy.remaining])).to.deep.equal([
        ['m', 85],
        ['burst', 15],
      ]);
      const file = join(folder, 'limits.json');
      writeFileSync(file, JSON.stringify({ api: { limit: 7, window: '1h', tiers: { free: '11/1m' } } }));
      expect(await peek('--policies', file, '--tier', 'free')).to.have.nested.property(
        'policies[0].limit',
        11,
      );
      expect(await peek('--policies', file)).to.have.nested.property('policies[0].limit', 7);
    });

    it('says which tiers there are', async () => {
      for (const command of ['peek', 'reset'])
        for (const tier of command === 'peek' ? [[], ['--tier', 'gold']] : [['--tier', 'gold']]) {
          const { code, stderr } = await headgate([command, 'user:2', '--name', 'api', ...tier, ...where]);
          expect(code).to.equal(2);
          expect(stderr).to.contain('--tier: ').and.contain('"api" has the tiers "free", "pro"');
        }
    });

    it('peek needs no tier if the charges of the key fit only one, or if the key is banned', async () => {
      const inPro = await headgate(['peek', 'user:1', '--name', 'api', ...where]);
      expect([inPro.code, inPro.stdout.split('\n')[0]]).to.deep.equal([
        0,
        'user:1 in api (tier pro), a request of cost 1: allowed',
      ]);
      const name = 'login';
      const banning = limiterOn(redisStore(clients[kind], { prefix: where[3]!, ...TELLING }), {
        ...{ name, tiers, ban: {} },
      });
      await banning.ban('user:3', '1h', { by: 'ada' });
      await told(where, name);
      const banned = await headgate(['peek', 'user:3', '--name', name, ...where]);
      expect(banned.code).to.equal(3);
      expect(banned.stdout).to.match(
        /^user:3 in login, a request of cost 1: denied \(banned\)\nbanned for .* by ada\n/,
      );
      await banning.close();
    });

    it('list finds the keys that the policies of a tier limit', async () => {
      const kinds = async (...more: string[]) =>
        (await jsonLines('list', '--name', 'api', ...where, ...more)).map((find) => find['kind']);
      expect(await kinds('--limited', '--tier', 'free')).to.deep.equal(['limited']);
      expect(await kinds('--limited', '--tier', 'pro')).to.deep.equal([]);
      expect(await kinds()).to.deep.equal([]);
      expect(await kinds('--hypothetical')).to.deep.equal(['limited']);
      // Without a tier, a key is judged in every tier that reads its state.
      const [find, ...others] = await jsonLines('list', '--limited', '--hypothetical', ...where);
      expect(find).to.include({ name: 'api', key: 'user:1', tier: 'free', policy: 'm', certain: false });
      expect(others).to.deep.equal([]);
      const plain = await headgate(['list', '--limited', ...where]);
      expect(plain.stdout).to.match(
        /^0 limited; .*\n1 key would be limited only in a tier that it does not have, .*: add --hypothetical\.$/m,
      );
      const { stdout } = await headgate(['list', '--limited', '--hypothetical', ...where]);
      expect(stdout)
        .to.match(/^user:1 +would be limited in tier free +m /m)
        .and.contain('\n0 limited, 1 limited only in some tiers; ');
      // A key that every tier denies is listed once, and needs no tier.
      await limiter.consume('user:1', { cost: { m: 85, burst: 1 }, tier: 'pro' });
      const all = await jsonLines('list', '--limited', ...where);
      expect(all).to.have.length(1);
      expect(all[0]).to.include({ key: 'user:1', certain: true });
    });

    it('list --above judges a key by the tiers that it may have', async () => {
      await limiter.consume('pro', { cost: { m: 30, burst: 1 }, tier: 'pro' });
      await limiter.consume('open', { cost: 9, tier: 'free' });
      const { stdout } = await headgate(['list', '--above', '25', ...where]);
      const rows = stdout.match(/^(?:pro|open) .*/gm)!.map((row) => row.replace(/ {2,}/g, '  '));
      expect(rows).to.deep.equal([
        'pro  admitted in tier pro  m: 30 of 100 used (30 %), burst: 1 of 20 used (5 %)  -',
        'open  admitted if the key is in tier free  m: 9 of 10 used (90 %)  -',
      ]);
    });

    it('key shows the answer of every tier', async () => {
      const { stdout, code } = await headgate(['key', 'user:1', ...where]);
      // The key may be of tier pro, which admits it.
      expect(code).to.equal(0);
      expect((await headgate(['key', 'user:1', '--tier', 'free', ...where])).code).to.equal(3);
      expect(stdout)
        .to.match(
          /^api \(tier free\) +user:1 +would be denied \(quota-exceeded\) +\d.* m: 0 of 10 per 1m +-$/m,
        )
        .and.match(/^api \(tier pro\) +user:1 +allowed +- +m: 85 of 100 per 1m, burst: 15 of 20 per 1h +-$/m);
    });

    it('key and list know the tier of a key that it denies now', async () => {
      const key = async () => (await headgate(['key', 'evil', ...where])).code;
      await limiter.consume('evil', { cost: 10, tier: 'free' });
      expect(await key()).to.equal(0);
      await limiter.consume('evil', { tier: 'free' });
      while ((await key()) !== 3) await new Promise((resolve) => setTimeout(resolve, 50));
      const { stdout } = await headgate(['list', '--limited', ...where]);
      expect(stdout)
        .to.match(/^evil +limited in tier free +m /m)
        .and.contain('\n1 limited; ');
    });

    it('reset forgets one tier, or all', async () => {
      const reset = async (...more: string[]) => {
        const done = (await json('reset', 'user:1', '--name', 'api', ...where, ...more)) as {
          policies: string[];
        };
        return done.policies;
      };
      expect(await reset('--tier', 'free')).to.deep.equal(['m']);
      expect(await reset()).to.deep.equal(['burst']);
      expect(await limiter.peek('user:1', { tier: 'pro' })).to.include({ remaining: 20 });
    });
  });
}

describe('override of a limiter with tiers, and of one with tenants', () => {
  const prefix = freshPrefix();
  const where = ['--redis', servers.redis.url, '--prefix', prefix];
  const made: Limiter[] = [];
  const make = (options: object) => {
    const limiter = limiterOn(redisStore(clients.redis, { prefix, ...TELLING }), {
      overrides: true,
      ...options,
    } as never);
    made.push(limiter);
    return told(where, (options as { name: string }).name);
  };
  after(() => Promise.all(made.map((limiter) => limiter.close())));

  it('warns that a change of all keys applies to every tier', async () => {
    await make({ name: 'api', tiers });
    const all = ['override', '--all', '--name', 'api', ...where];
    const { stderr, code } = await headgate([...all, 'm=60/1m']);
    expect(code).to.equal(0);
    expect(stderr).to.contain(
      'for all keys, in every tier of "api": tier free: m 10/1m -> 60/1m (HIGHER); tier pro: m 100/1m -> 60/1m (lower).',
    );
    expect((await headgate([...all, '--remove'])).stderr).to.equal('');
    const toFree = await headgate([...all, '--tier', 'free']);
    expect(toFree.stderr).to.contain('in every tier of "api": tier pro: m 100/1m -> 10/1m (lower)');
    expect((await headgate([...all, '--remove'])).code).to.equal(0);
    // Of a key, only changes in both directions are doubtful.
    const key = ['override', 'ada', '--name', 'api', ...where];
    expect((await headgate([...key, 'm=60/1m'])).stderr).to.contain('the key, whatever its tier');
    expect((await headgate([...key, 'm=500/1m'])).stderr).to.equal('');
  });

  it('says what the weight of a tenant depends on', async () => {
    await make({ name: 'llm', policies: 'q=800/1m by provider share tenant' });
    const { stderr, code } = await headgate([
      ...['override', 'acme', '20/1m', '--dimension', 'tenant', '--name', 'llm'],
      ...where,
    ]);
    expect(code).to.equal(2);
    expect(stderr)
      .to.contain("keys of 'tenant' share the limit of a key of 'provider'")
      .and.contain('limiter.override({ provider, tenant }, { weight: 5 })');
  });
});

describe('--tier of replay', () => {
  it('replays the policies of one tier', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-'));
    const [log, file] = [join(folder, 'access.log'), join(folder, 'limits.json')];
    const line = '192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n';
    writeFileSync(log, line.repeat(30));
    writeFileSync(file, JSON.stringify({ api: { tiers } }));
    const denied = async (tier: string) =>
      JSON.stringify(await json('replay', log, '--policies', file, '--tier', tier));
    expect(await denied('free')).to.contain('"denied":20');
    expect(await denied('pro')).to.contain('"denied":10');
    rmSync(folder, { recursive: true });
  });
});
