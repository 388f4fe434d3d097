// Limiters with a shared limit, whose hidden policies operators do not see, and their tenants.
import { expect } from 'chai';
import type { JudgedKey } from 'headgate/admin';
import { places, until, useLimiters, type Place } from '../../admin/stores.js';

for (const [kind, open] of Object.entries(places))
  for (const policy of ['p=2/1h by provider share tenant', 'p=concurrency 2/1h by provider share tenant'])
    describe(`admin of '${policy}', on ${kind}`, () => {
      let place: Place;
      const { make, known } = useLimiters(open, (opened) => (place = opened));

      it('shows a key, and lists the limited keys', async () => {
        const limiter = make({ name: 'shared', store: place.store, policies: policy });
        await limiter.consume({ provider: 'openai', tenant: 'acme' }, { cost: 2 });
        await known('shared');
        const ofSlots = policy.includes('concurrency');
        if (kind !== 'sqlite') {
          const tenants = await place.admin.key('acme', ofSlots ? { dimension: 'tenant' } : {});
          expect(tenants.filter(({ within }) => within)).to.have.lengthOf(1);
          expect(tenants.find(({ within }) => within)).to.deep.include({
            ...{ name: 'shared', key: 'acme', dimension: 'tenant', within: 'provider openai' },
            ...{ allowed: false, reason: 'quota-exceeded' },
          });
          const views = await place.admin.key('openai');
          expect(views.map(({ dimension }) => dimension)).to.deep.equal(['provider']);
        }
        const given = { name: 'shared', policies: [policy] };
        for (const options of [given, ...(kind === 'sqlite' ? [] : [{ name: 'shared' }])]) {
          const limited: JudgedKey[] = [];
          for await (const entry of place.admin.limited(options)) limited.push(entry);
          const found = limited.map(({ key, policies }) => [key, policies.map(({ name }) => name)]);
          // Tenants of slots have no state of their own.
          expect(found).to.have.deep.members([['openai', ['p']], ...(ofSlots ? [] : [['acme', ['p']]])]);
        }
      });
    });

for (const [kind, open] of Object.entries(places))
  describe(`admin.tenants, on ${kind}`, () => {
    let place: Place;
    const { make, known } = useLimiters(open, (opened) => (place = opened));

    it('lists the tenants of a shared limit with share, use, weight, and the reason of denials', async () => {
      const policies = ['p=100/1h by provider share tenant'];
      const limiter = make({ name: 'llm', store: place.store, policies });
      const spend = (tenant: string, cost: number) =>
        limiter.consume({ provider: 'openai', tenant }, { cost, ...(tenant === 'acme' && { weight: 3 }) });
      await known('llm');
      await spend('globex', 5);
      const first = await spend('acme', 40);
      expect(first.allowed).to.equal(true);
      let last = first;
      while (last.allowed) last = await spend('acme', 1);
      expect(last.reason).to.equal('fair-share');
      const [acme, globex, ...others] = await place.admin.tenants({ name: 'llm' });
      expect(others).to.deep.equal([]);
      const own = { name: 'llm', policy: 'p', dimension: 'tenant', within: 'provider openai', limit: 100 };
      expect(acme).to.include({ ...own, key: 'acme', isHeavy: true, weight: 3, reason: 'fair-share' });
      const peeked = await limiter.peek({ provider: 'openai', tenant: 'acme' });
      const [verdict] = peeked.policies;
      expect(acme).to.include({ share: verdict!.share, remaining: verdict!.remaining, allowed: false });
      expect(acme!.retryAfterMs).to.be.within(1, 3_600_000);
      expect(acme!.used).to.equal(
        100 - 5 - (await limiter.peek({ provider: 'openai' })).policies[0]!.remaining,
      );
      expect(globex).to.include({ ...own, key: 'globex', used: 5, isHeavy: false, weight: 1 });
      expect(globex).to.include({ allowed: true, reason: null, retryAfterMs: null });
      expect(await place.admin.tenants({ name: 'other' })).to.deep.equal([]);
    });

    it('names the method of the program that overrides the weight of a tenant', async () => {
      const policies = ['p=100/1h by provider share tenant'];
      make({ name: 'llm', store: place.store, policies, overrides: true });
      await known('llm');
      const key = { provider: 'openai', tenant: 'acme' } as never;
      const error = await place.admin
        .override(key, { weight: 5 }, { name: 'llm' })
        .catch((thrown: Error) => thrown);
      expect(error).to.include({ code: 'HEADGATE_INVALID_ARGUMENT' });
      expect((error as Error).message).to.match(
        /^key: not a text\. .* limiter\.override\(\{ provider, tenant \}/,
      );
    });

    it('sums the requests of a tenant over all policies, and names the one that denies', async () => {
      const policies = ['tokens=300/1h by provider share tenant', 'pace=5/1h by tenant'];
      const limiter = make({ name: 'chat', store: place.store, policies });
      await known('chat');
      const spend = (cost: Record<string, number>) =>
        limiter.consume({ provider: 'openai', tenant: 'globex' }, { cost });
      // The first request is counted for the share, of which less is left, and the others for the pace.
      await spend({ tokens: 298, pace: 0 });
      for (let i = 0; i < 12; i++) await spend({ tokens: 0 });
      const keys = async () => (await place.admin.traffic()).limiters.flatMap((each) => each.keys);
      await until(async () => (await keys()).some(({ denied }) => denied > 0));
      expect(await keys()).to.have.lengthOf(1);
      const [row, ...others] = await place.admin.tenants({ name: 'chat' });
      expect(others).to.deep.equal([]);
      expect(row).to.include({ key: 'globex', within: 'provider openai', policy: 'tokens' });
      expect(row).to.include({ allowed: false, denying: 'pace', reason: 'quota-exceeded' });
      expect(row!.deniedBy.map(({ policy }) => policy)).to.deep.equal(['pace']);
      const [key] = await keys();
      expect(key).to.include({ key: 'globex', dimension: 'tenant', policy: 'pace' });
      for (const counted of [row!, key!]) {
        expect(counted.denied).to.be.greaterThan(0);
        expect(counted.admitted).to.be.greaterThan(0);
      }
    });

    it('lists the tenants of the tier whose limit they share', async () => {
      const tiers = {
        free: ['p=10/1h by provider share tenant'],
        pro: ['q=100/1h by provider share tenant'],
      };
      const limiter = make({ name: 'llm', store: place.store, tiers });
      await known('llm');
      await limiter.consume({ provider: 'openai', tenant: 'acme' }, { tier: 'pro', cost: 7 });
      const found = await place.admin.tenants({ name: 'llm' });
      expect(found.map(({ tier, policy, key, used }) => [tier, policy, key, used])).to.deep.equal([
        ['pro', 'q', 'acme', 7],
      ]);
    });

    it('judges a tenant by the tiers in which it has state, although others have used up its share in another tier', async () => {
      const tiers = {
        free: ['p=1/1m by provider share tenant'],
        pro: ['p=2/1h by provider share tenant'],
      };
      const limiter = make({ name: 'llm', store: place.store, tiers });
      await known('llm');
      const spend = (tenant: string, options: object) =>
        limiter.consume({ provider: 'openai', tenant }, options);
      await spend('globex', { tier: 'pro', cost: 2 });
      // The denial makes the tenant heavy, so that half of the limit is the share of acme, although nothing is left.
      await spend('globex', { tier: 'pro' });
      await spend('acme', { tier: 'free' });
      const limited: JudgedKey[] = [];
      for await (const find of place.admin.limited({ name: 'llm' })) limited.push(find);
      const acme = limited.filter(({ key }) => key === 'acme');
      expect(acme.map(({ tier, certain, likely }) => [tier, certain, likely])).to.deep.equal([
        ['free', true, true],
      ]);
      if (kind === 'sqlite') return;
      const views = await place.admin.key('acme', { name: 'llm', dimension: 'tenant' });
      const judged = views.map(({ tier, likely, policies: [p] }) => [tier, likely, p!.share, p!.remaining]);
      expect(judged).to.deep.equal([
        ['free', true, 1, 0],
        ['pro', false, 1, 0],
      ]);
    });
  });

for (const [kind, open] of Object.entries(places))
  describe(`admin of tenants whose requests bring weights, on ${kind}`, () => {
    let place: Place;
    const { make, known } = useLimiters(open, (opened) => (place = opened));
    const weights = { a: 5, b: 2, c: 1 };
    const within = 'provider p';

    /** Spends as several tenants in turn, until each was denied several times. */
    async function flood(spend: (tenant: keyof typeof weights) => Promise<{ allowed: boolean }>) {
      for (let i = 0; i < 120; i++) for (const tenant of ['a', 'b', 'c'] as const) await spend(tenant);
    }

    it('computes shares and answers by the weights that heavy tenants brought', async () => {
      const limiter = make({
        name: 'llm',
        store: place.store,
        policies: 'q=800/1h by provider share tenant',
      });
      await known('llm');
      await flood((tenant) =>
        limiter.consume({ provider: 'p', tenant }, { weight: weights[tenant], cost: 10 }),
      );
      const found = await place.admin.tenants({ name: 'llm' });
      expect(found).to.have.lengthOf(3);
      const finds = new Map<unknown, JudgedKey>();
      const search = await place.admin.keys({ name: 'llm', kinds: ['limited', 'admitted'] });
      for await (const find of search)
        if (find.kind === 'limited' || find.kind === 'admitted') finds.set(find.key, find);
      for (const [tenant, weight] of Object.entries(weights)) {
        const peeked = await limiter.peek({ provider: 'p', tenant }, { weight });
        const { share, remaining, allowed } = peeked.policies[0]!;
        const view = found.find(({ key }) => key === tenant)!;
        expect(view).to.include({ isHeavy: true, weight, share, remaining, allowed, within });
        expect(share).to.equal(weight * 100);
        expect(finds.get(tenant)!.policies[0]).to.include({ share, remaining, allowed, used: view.used });
        if (kind === 'sqlite') continue;
        const [answer] = await place.admin.key(tenant, { name: 'llm', dimension: 'tenant' });
        expect(answer!.policies[0]).to.include({ share, remaining, allowed, used: view.used });
      }
    });

    it('shows a tenant in the tier whose weight it brought', async () => {
      const tiers = {
        free: ['q=800/1h by provider share tenant'],
        plus: ['q=800/1h by provider share tenant weight 2'],
        pro: ['q=800/1h by provider share tenant weight 5'],
      };
      const tierOf = { a: 'pro', b: 'plus', c: 'free' };
      const limiter = make({ name: 'llm', store: place.store, tiers });
      await known('llm');
      await flood((tenant) => limiter.consume({ provider: 'p', tenant }, { tier: tierOf[tenant], cost: 10 }));
      const found = await place.admin.tenants({ name: 'llm' });
      expect(found.map(({ key, tier, share, weight }) => [key, tier, share, weight])).to.have.deep.members([
        ['a', 'pro', 500, 5],
        ['b', 'plus', 200, 2],
        ['c', 'free', 100, 1],
      ]);
      if (kind === 'sqlite') return;
      const views = await place.admin.key('a', { name: 'llm', dimension: 'tenant' });
      expect(views.map(({ tier, likely }) => [tier, likely])).to.deep.equal([
        ['free', false],
        ['plus', false],
        ['pro', true],
      ]);
    });
  });
