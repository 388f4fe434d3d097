// Overrides while the processes of a limiter have different policies, such as during a deployment.
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix, limiterOn } from '../../support/stores.js';
import { serverKinds } from '../../support/shared-servers.js';
import { until } from '../../admin/stores.js';

const NAMED = { name: 'api', by: 'ada', reason: 'attack' };

if (serverKinds.includes('redis'))
  describe('overrides while processes have different policies', () => {
    /** Limiters of one name in several processes, the admin of another process, and a function that closes all. */
    const open = async (...configured: object[]) => {
      const prefix = freshPrefix();
      const stores = configured.map(() => redisStore(clients.redis, { prefix, publish: '10ms' }));
      const limiters = configured.map((options, i) =>
        limiterOn(stores[i]!, { name: 'api', overrides: true, timeout: '5s', ...options } as never),
      );
      const admin = createAdmin(clients.redis, { prefix });
      const processes = configured.length;
      await until(async () => (await admin.limiters()).instances.length === processes);
      const close = async () => {
        for (const each of [...limiters, ...stores]) await each.close!();
      };
      return { admin, limiters, close };
    };
    const old = { policies: '100/1m' };
    const limitOf = async (limiter: Limiter, key: string) => (await limiter.peek(key)).limit;
    const codesOf = ({ warnings }: { readonly warnings: readonly { readonly code: string }[] }) =>
      warnings.map(({ code }) => code);

    for (const [kind, other] of Object.entries({
      'another window': { policies: '100/30s' },
      'a bucket': { policies: 'token-bucket 100/1m' },
      tiers: { tiers: { pro: '100/30s', free: '100/2m' } },
    }))
      it(`each process applies the override of a key and of all keys: ${kind}`, async () => {
        const { admin, limiters, close } = await open(old, old, other);
        const tier = 'tiers' in other ? { tier: 'pro' } : {};
        const limits = async (key: string) => [
          await limitOf(limiters[0]!, key),
          (await limiters[2]!.peek(key, tier)).limit,
        ];
        const change = await admin.override('attacker', { limit: 5 }, NAMED);
        expect(codesOf(change)).to.deep.equal(['DIFFERENT']);
        expect(change.warnings[0]!.message).to.include('Each applies the change to its own policies.');
        expect(await limits('attacker')).to.deep.equal([5, 5]);
        const all = await admin.overrideAll({ limit: 7 }, { ...NAMED, for: '1h' });
        expect(codesOf(all)).to.include('DIFFERENT').and.not.include('UNFIT_OVERRIDE');
        await until(async () => (await limits('someone')).every((limit) => limit === 7));
        expect((await limiters[2]!.consume('someone', tier)).limit).to.equal(7);
        const [preview] = await admin.previewOverrides([{ key: 'x', change: { limit: 3 } }], NAMED_ONLY);
        expect(codesOf(preview as never)).to.include('DIFFERENT');
        const [found] = (await admin.check()).filter(({ code }) => code === 'overrides');
        expect(found).to.have.property('level', 'ok');
        await admin.removeOverride('attacker', NAMED);
        await admin.removeOverride(undefined, NAMED);
        await until(async () => (await limits('attacker')).every((limit) => limit === 100));
        await close();
      });

    for (const [own, other, change, limits] of [
      ['100/1m', '200/2m', { window: '2m' }, [100, 200]],
      ['100/1m', '200/1m', { window: '1m' }, [100, 200]],
      ['fixed-window 100/1m', 'sliding-log 200/2m', { window: '2m' }, [100, 200]],
      ['token-bucket 100/1m', 'token-bucket 200/2m', { window: '2m' }, [100, 200]],
      ['token-bucket 100/1m', 'token-bucket 200/2m', { limit: 300, window: '2m' }, [300, 300]],
    ] as const)
      it(`each process applies ${JSON.stringify(change)} to its own policies: ${own}, ${other}`, async () => {
        const { admin, limiters, close } = await open(
          { policies: own },
          { policies: own },
          { policies: other },
        );
        expect(codesOf(await admin.override('ada', change, NAMED))).to.deep.equal(['DIFFERENT']);
        expect([await limitOf(limiters[1]!, 'ada'), await limitOf(limiters[2]!, 'ada')]).to.deep.equal(
          limits,
        );
        await limiters[2]!.override('ada', { limit: 7 });
        expect(await limitOf(limiters[1]!, 'ada')).to.equal(7);
        const viewed = async (key: string) => {
          const [view] = await admin.key(key, NAMED_ONLY);
          return view!.policies.map(({ limit }) => limit);
        };
        expect(await viewed('ada')).to.deep.equal([7]);
        await limiters[2]!.overrideAll({ limit: 9 });
        // The administration has the policies of the most processes.
        await until(async () => (await limitOf(limiters[1]!, 'bob')) === 9);
        await limiters[1]!.consume('bob', { cost: 9 });
        expect(await viewed('bob')).to.deep.equal([9]);
        const limited = [];
        for await (const { key, overridden, policies } of admin.limited(NAMED_ONLY))
          limited.push([key, overridden, policies[0]!.limit]);
        expect(limited).to.deep.equal([['bob', true, 9]]);
        const [found] = (await admin.check()).filter(({ code }) => code === 'overrides');
        expect(found).to.have.property('level', 'ok');
        await close();
      });

    it('a process with a part of the policies changes that part, and an operator learns it', async () => {
      const most = { policies: ['minute=100/1m', 'day=1000/1d'] };
      const { admin, limiters, close } = await open(most, most, { policies: ['minute=200/1m'] });
      for (const day of [false, { limit: 5 }] as const) {
        const { warnings } = await admin.override('ada', { minute: { limit: 500 }, day }, NAMED);
        const [, { message } = { message: '' }] = warnings;
        expect(message).to.include('a process changes only "minute" of "api"').and.include('named "day"');
        expect(await limitOf(limiters[2]!, 'ada')).to.equal(500);
        const [found] = (await admin.check()).filter(({ code }) => code === 'overrides');
        expect(found!.message).to.include('api: ada (in a part of its processes)');
      }
      const { warnings } = await admin.override('ada', { day: { limit: 5 } }, NAMED);
      expect(warnings[1]!.message).to.include('a process keeps its limits of "api"');
      expect(await limitOf(limiters[2]!, 'ada')).to.equal(200);
      await close();
    });

    it('a process whose policies the change does not fit is named, and found by check', async () => {
      const several = {
        policies: [
          { name: 'minute', limit: 100, window: '1m' },
          { name: 'hour', limit: 500, window: '1h' },
        ],
      };
      const { admin, limiters, close } = await open(old, old, several, { ...old, overrides: false });
      const { warnings } = await admin.override('attacker', { limit: 5 }, NAMED);
      expect(warnings.map(({ code }) => code)).to.deep.equal([
        'DIFFERENT',
        'UNFIT_OVERRIDE',
        'UNFIT_OVERRIDE',
      ]);
      const texts = warnings.map(({ message }) => message).join(' ');
      expect(texts).to.include('3 different configurations').and.include('has several policies');
      expect(texts).to.include('the option `overrides` is missing');
      expect(await limitOf(limiters[0]!, 'attacker')).to.equal(5);
      expect(await limitOf(limiters[2]!, 'attacker')).to.equal(100);
      const [found] = (await admin.check()).filter(({ code }) => code === 'overrides');
      expect(found).to.have.property('level', 'warning');
      expect(found!.message).to.include('api: attacker (in a part of its processes)');
      await close();
    });
  });

const NAMED_ONLY = { name: 'api' };
