// headgate top: the counts of stores with the option.
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import type { Limiter, Policy } from 'headgate';
import { redisStore, type RedisStoreOptions } from 'headgate/redis';
import { topKey } from '../../../../src/stores/redis/operators/count-keys.js';
import { clients, limiterOn } from '../../../../test/support/stores.js';
import { headgate, json } from '../cli.js';
import { forEachTest } from '../places.js';

interface Rates {
  admitted: number;
  denied: number;
}
interface Shown {
  spanMs: number;
  instances: number;
  isSampled: boolean;
  latency: { p50Ms: number; p99Ms: number } | null;
  processes: { pid: number }[];
  limiters: (Rates & {
    name: string;
    policies: { name: string; denied: number }[];
    reasons: { reason: string; denied: number }[];
    keys: (Rates & { key?: string; keyHash?: string; policy?: string })[];
  })[];
}

for (const kind of ['redis', 'valkey'] as const) {
  describe(`headgate top on ${kind}`, () => {
    const client = clients[kind];
    let prefix: string;
    let where: string[];
    let limiters: Limiter[];

    forEachTest(kind, (place) => ({ prefix, where, limiters } = place));

    const on = (name: string, options: RedisStoreOptions, more: object = {}): Limiter => {
      const store = redisStore(client, { prefix, publish: false, ...options });
      const policies = [
        { name: 'few', limit: 3, window: '1h' },
        { name: 'many', limit: 1000, window: '1h' },
      ];
      const limiter = limiterOn(store, { name, policies, ...more });
      limiters.push(limiter);
      return limiter;
    };
    const shown = async (...args: string[]) => (await json('top', '--once', ...where, ...args)) as Shown;
    /** The counts are shown once, because they are too old after five seconds. */
    const shownWith = async (instances: number) => {
      for (;;) {
        const found = await shown();
        if (found.instances === instances) return found;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };

    it('shows by limiter, policy and key what all instances admit and deny, even without a call', async () => {
      const long = 'k'.repeat(1000);
      const [one, two] = [on('api', { counts: { sample: 1 } }), on('api', { counts: { sample: 1 } })];
      const other = on('<other>:', { counts: { sample: 1 } });
      for (let i = 0; i < 10; i++) await one.consume('{a}:*');
      for (let i = 0; i < 5; i++) await two.consume('b');
      for (let i = 0; i < 2; i++) await two.consume(long);
      await one.peek('nobody');
      await one.consume('nobody', { cost: 0 });
      await other.consume('a');
      const { limiters: found, processes, latency, ...rest } = await shownWith(3);
      expect(latency!.p50Ms).to.be.within(0.001, latency!.p99Ms);
      expect(rest).to.deep.equal({ spanMs: 5000, instances: 3, isSampled: false });
      expect(processes.map(({ pid }) => pid)).to.deep.equal([process.pid, process.pid, process.pid]);
      const [api, others] = found;
      // 3 + 3 + 2 are admitted, over five seconds.
      expect(api).to.include({ name: 'api', admitted: 1.6, denied: 1.8 });
      expect(api!.policies).to.deep.equal([{ name: 'few', denied: 1.8 }]);
      expect(api!.keys.slice(0, 2)).to.deep.equal([
        { key: '{a}:*', admitted: 0.6, denied: 1.4, policy: 'few' },
        { key: 'b', admitted: 0.6, denied: 0.4, policy: 'few' },
      ]);
      expect(api!.keys[2]).to.include({ admitted: 0.4, denied: 0 });
      expect(api!.keys[2]!.keyHash).to.match(/^[\w-]{43}$/);
      expect(api!.keys).to.have.length(3);
      expect(others).to.deep.include({ name: '<other>:', admitted: 0.2, denied: 0, policies: [] });
      expect(
        (await shown('--name', 'api', '--keys', '1')).limiters.map(({ keys }) => keys.length),
      ).to.deep.equal([1]);

      const { stdout, code } = await headgate(['top', '--once', ...where]);
      expect(code).to.equal(0);
      expect(stdout)
        .to.match(/^api +1\.6 +1\.8 +3\.4$/m)
        .and.match(/^ {2}by policy few +1\.8$/m);
      expect(stdout)
        .to.match(/^ {2}\{a\}:\* +0\.6 +1\.4 +2 +few$/m)
        .and.match(/\n3 instances, the last 5 seconds\.\n$/);
      const sorted = await headgate(['top', '--once', '--sort', 'requests', ...where]);
      expect(sorted.stdout).to.match(/^ +admitted\/s +denied\/s +total\/s +denied by\n(?=.)/);
      expect((await headgate(['top', '--sort', 'most', ...where])).code).to.equal(2);
    });

    it('shows other causes of denials: bans and lists; keys never have more than their limiter', async () => {
      const banning = { policies: [{ limit: 1, window: '1h' }], ban: { after: 1 } };
      const limiter = on('api', { counts: { sample: 16 }, localDenials: false }, banning);
      for (let i = 0; i < 15; i++) await limiter.consume('a');
      for (let i = 0; i < 5; i++)
        limiter.internals.decider.unasked.listed(limiter.internals.decider.subject('b'), 'deny-listed');
      const { limiters: found } = await shownWith(1);
      const [api] = found as [Shown['limiters'][number]];
      expect(api).to.include({ admitted: 0.2, denied: 3.8 });
      expect(api.policies).to.deep.equal([{ name: 'default', denied: 0.2 }]);
      expect(api.reasons).to.deep.equal([
        { reason: 'banned', denied: 2.6 },
        { reason: 'deny-listed', denied: 1 },
      ]);
      const sum = (of: 'admitted' | 'denied') => api.keys.reduce((total, key) => total + key[of], 0);
      expect(sum('denied')).to.be.at.most(3.8);
      expect(sum('admitted')).to.be.at.most(0.2);
      const { stdout } = await headgate(['top', '--once', ...where]);
      expect(stdout).to.match(/^ {2}banned +2\.6$/m);
    });

    it('names decisions without the store, which admit what the store would deny', async () => {
      const limiter = on('api', {}, { timeout: '50ms', onStoreError: 'local' });
      await limiter.consume('a');
      await client.call('CLIENT', 'PAUSE', '1000');
      const { degraded } = await limiter.consume('a');
      expect(degraded).to.equal(true);
      await shownWith(1);
      const { stdout } = await headgate(['top', '--once', ...where]);
      expect(stdout).to.match(/the last 5 seconds; 0\.[24] decisions a second without the store: see check/);
    });

    it('tells first what denies most: policies, and what else there is', async () => {
      const policies: Policy[] = [
        { name: 'few', limit: 1, window: '1h', by: 'account' },
        { name: 'one', limit: 1, window: '1h', by: 'org' },
      ];
      for (const [name, ...times] of [
        ['more', 9, 4],
        ['less', 4, 9],
      ] as const) {
        const limiter = on(name, { counts: true, localDenials: false }, { policies, ban: {} });
        await limiter.consume({ account: 'a' });
        await limiter.consume({ org: 'a' });
        for (const [i, key] of [{ account: 'a' }, { org: 'a' }].entries())
          for (let n = 0; n < times[i]!; n++) await limiter.consume(key);
        await limiter.ban('z', '1h');
        for (let n = 0; n < times[0]; n++)
          limiter.internals.decider.unasked.listed(limiter.internals.decider.subject('b'), 'deny-listed');
        for (let n = 0; n < times[1]; n++) await limiter.consume('z');
      }
      const { limiters: found } = await shownWith(2);
      const named = (name: string) => found.find((each) => each.name === name)!;
      for (const [name, ...denied] of [
        ['more', 'few', 'one'],
        ['less', 'one', 'few'],
      ] as const)
        expect(named(name).policies.map((policy) => policy.name)).to.deep.equal(denied);
      for (const [name, ...denied] of [
        ['more', 'deny-listed', 'banned'],
        ['less', 'banned', 'deny-listed'],
      ] as const)
        expect(named(name).reasons.map(({ reason }) => reason)).to.deep.equal(denied);
    });

    it('shows the waiting and held requests and the slots in use of all processes', async () => {
      const slots = { policies: [{ algorithm: 'concurrency', limit: 1, lease: '1m' }] };
      const paced = {
        policies: [{ algorithm: 'leaky-bucket', limit: 1, window: '1h', burst: 1, maxDelay: '2h' }],
      };
      const [one, two] = [on('jobs', { counts: true }, slots), on('jobs', { counts: true }, slots)];
      const held = on('paced', { counts: true }, paced);
      await one.consume('a');
      await two.consume('b');
      const stop = new AbortController();
      const { signal } = stop;
      const waits = [
        one.wait('a', { timeout: '1m', signal }),
        two.wait('b', { timeout: '1m', signal }),
        held.consume('c').then(async () => held.hold(await held.consume('c'), { signal })),
      ].map((each) => each.catch(() => {}));
      const linesOf = async () => (await headgate(['top', '--once', ...where])).stdout.split('\n');
      const isIn = (lines: readonly string[]) =>
        ['  2 waiting, 2 slots in use by all keys', '  1 held'].every((line) => lines.includes(line));
      while (!isIn(await linesOf())) await new Promise((resolve) => setTimeout(resolve, 50));
      stop.abort();
      await Promise.all(waits);
    });

    it('warns of a scope that is not there', async () => {
      const { code, stderr } = await headgate(['top', '--once', '--name', 'nope', ...where]);
      expect(code).to.equal(0);
      expect(stderr).to.match(/warning: .*"nope"/);
    });

    it('counts what is decided from slices and shadows, too', async () => {
      const leased = on(
        'leased',
        { counts: true, slices: true },
        { policies: [{ limit: 100_000, window: '1h' }] },
      );
      await Promise.all(Array.from({ length: 50 }, () => leased.consume('a')));
      for (let i = 0; i < 50; i++) await leased.consume('a');
      const shadow = on('shadow', { counts: true }, { shadow: true });
      for (let i = 0; i < 5; i++) await shadow.consume('a');
      const { limiters: found, isSampled } = await shownWith(2);
      expect(isSampled).to.equal(false);
      const [leases, shadows] = found;
      expect(leases).to.include({ name: 'leased', admitted: 20, denied: 0 });
      expect(shadows).to.include({ name: 'shadow', admitted: 1, denied: 0 });
      expect(shadows!.policies).to.deep.equal([{ name: 'few', denied: 0.4 }]);
      await leased.close();
    });

    it('keys are sampled at random, and right on average', async () => {
      const limiter = on('api', { counts: { sample: 16 } }, { policies: [{ limit: 1e6, window: '1h' }] });
      const keys = Array.from({ length: 16_000 }, (_, i) => (i % 4 === 0 ? 'quarter' : 'rest'));
      await Promise.all(keys.map((key) => limiter.consume(key)));
      await limiter.consume('late');
      const { limiters: found, isSampled } = await shownWith(1);
      expect(isSampled).to.equal(true);
      const rateOf = (name: string) => found[0]!.keys.find(({ key }) => key === name)!.admitted;
      const share = rateOf('quarter') / (rateOf('quarter') + rateOf('rest'));
      expect(share).to.be.within(0.18, 0.32);
      expect(found[0]!.admitted).to.be.above(1000);
    });

    it('is bounded, has a TTL, and is off if it is not wanted', async () => {
      const off = on('off', { counts: false });
      await off.consume('a');
      const limiter = on('api', { counts: { sample: 1 } }, { policies: [{ limit: 9, window: '1h' }] });
      await Promise.all(Array.from({ length: 1500 }, (_, i) => limiter.consume(`user:${i}`)));
      await shownWith(1);
      const [[, [, text]]] = (await client.xrange(topKey(prefix), '-', '+')) as [[string, string[]]];
      const [counted] = (JSON.parse(text!) as { limiters: { name: string; keys: object }[] }).limiters;
      expect(counted!.name).to.equal('api');
      expect(Object.keys(counted!.keys)).to.have.length(40);
      expect(await client.pttl(topKey(prefix))).to.be.within(50_000, 60_000);
      const fill = `for i = 1, 4000 do redis.call('XADD', KEYS[1], '1-' .. i, 'counts', '{}') end`;
      await client.del(topKey(prefix));
      await client.eval(fill, 1, topKey(prefix));
      await limiter.consume('a');
      while (await client.xrange(topKey(prefix), '2', '+').then(({ length }) => length === 0));
      expect(await client.xlen(topKey(prefix))).to.be.within(2000, 2200);
      await client.pexpire(topKey(prefix), 60_000);
    });

    it('goes on until Ctrl-C, for people and as lines of JSON', async () => {
      const limiter = on('api', { counts: true });
      await limiter.consume('a');
      await shownWith(1);
      for (const args of [[], ['--json']]) {
        let interrupt = () => {};
        const onInterrupt = (listener: () => void) => {
          interrupt = listener;
          return () => {};
        };
        const stdout = new PassThrough();
        let written = '';
        stdout.on('data', (chunk: Buffer) => {
          written += chunk.toString();
          if (/api/.test(written)) interrupt();
        });
        const { code } = await headgate(['top', ...args, ...where], { stdout, onInterrupt });
        expect(code).to.equal(0);
        expect(written).to.contain('api').and.not.contain('\u001b');
        if (args.length > 0) expect(JSON.parse(written.trim().split('\n')[0]!)).to.include({ instances: 1 });
      }
    });

    it('fits into the terminal: every limiter has a line, and the first ones have their keys', async () => {
      const names = Array.from({ length: 12 }, (_, i) => `limiter-${i}-${'x'.repeat(40)}`);
      const made = names.map((name) => on(name, { counts: true }));
      for (const [i, limiter] of made.entries()) for (let n = 0; n < 5 + i; n++) await limiter.consume('a');
      await shownWith(12);
      for (const [rows, limiterLines] of [
        [20, 12],
        [10, 6],
      ] as const) {
        let interrupt = () => {};
        const onInterrupt = (listener: () => void) => {
          interrupt = listener;
          return () => {};
        };
        const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 40, rows });
        let written = '';
        stdout.on('data', (chunk: Buffer) => {
          written += chunk.toString();
          interrupt();
        });
        await headgate(['top', ...where], { stdout, onInterrupt, env: { NO_COLOR: '1' } });
        const lines = written.replace('\u001b[H\u001b[J', '').split('\n');
        expect(lines.length).to.be.at.most(rows);
        for (const line of lines.slice(0, -2)) expect(line.length).to.be.at.most(40);
        expect(lines.filter((line) => line.startsWith('limiter-'))).to.have.length(limiterLines);
        expect(lines[1]).to.match(/^limiter-11-/);
        if (rows === 20) expect(lines[2]).to.match(/^ {2}a +/);
        else expect(lines.at(-2)).to.contain('; 6 more limiters.');
      }
    });

    it('says what to do where nothing is counted, or asked wrongly', async () => {
      const { stdout, code } = await headgate(['top', '--once', ...where]);
      expect(stdout).to.contain('a clock of their own only with `counts: true`');
      expect(code).to.equal(0);
      expect((await headgate(['top', '--once', '--keys', '21', ...where])).code).to.equal(2);
      for (const top of [{ sample: 0 }, { samples: 1 }, 'yes'] as unknown as boolean[]) {
        expect(() => redisStore(client, { counts: top })).to.throw(/redisStore\.counts/);
      }
    });
  });
}
