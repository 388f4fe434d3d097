// Overrides by processes with other policies, as during a deployment and after it.
import { expect } from 'chai';
import type { Limiter, OverrideChange, Store } from 'headgate';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

type Options = Record<string, unknown>;

const window = { limit: 100, window: '1m' };
const bucket = { algorithm: 'token-bucket', ...window };

/** The state of a store in another process, where a limiter of the same name may have other policies. */
const inProcess = (store: Store): Store =>
  new Proxy(store, {
    get: (of, name: keyof Store) => {
      const member: unknown = of[name];
      return typeof member === 'function' ? (member.bind(of) as unknown) : member;
    },
  });

/** Each: the policies of the process that overrides, those of another process, the change, and the limits in the other process. */
const cases: [string, Options, Options, OverrideChange, number[]][] = [
  ['another window', window, { limit: 200, window: '2m' }, { limit: 1000 }, [1000]],
  ['another limit of a bucket', bucket, { ...bucket, limit: 200 }, { limit: 1000 }, [1000]],
  ['another limit of a bucket, as text', bucket, { ...bucket, limit: 200 }, '1000/1m', [1000]],
  ['another algorithm', window, bucket, { limit: 1000 }, [1000]],
  ['another name', window, { policies: ['minute=200/2m'] }, { limit: 1000 }, [1000]],
  ['policies that come with each request', window, { policies: '1/1h' }, { limit: 1000 }, [1000]],
  [
    'another window of one policy',
    { policies: ['minute=100/1m', 'hour=500/1h'] },
    { policies: ['minute=200/2m', 'hour=600/1h'] },
    { minute: { limit: 50 }, hour: { limit: 90 } },
    [50, 90],
  ],
  [
    'another window of a policy that a change does not name',
    { policies: ['minute=100/1m', 'hour=500/1h'] },
    { policies: ['minute=200/2m', 'hour=600/1h'] },
    { hour: { limit: 90 } },
    [200, 90],
  ],
  [
    'a policy less',
    { policies: ['minute=100/1m', 'day=1000/1d'] },
    { policies: ['minute=200/1m'] },
    { minute: { limit: 500 }, day: false },
    [500],
  ],
  [
    'a policy less, and another window',
    { policies: ['minute=100/1m', 'day=1000/1d'] },
    { policies: ['minute=200/2m', 'hour=300/1h'] },
    { minute: { limit: 500 }, day: { limit: 10 } },
    [500, 300],
  ],
  [
    'a policy to which the change does not apply',
    { policies: ['minute=100/1m', 'hour=token-bucket 500/1h'] },
    { policies: ['minute=200/1m', 'hour=600/1h'] },
    { minute: { limit: 50 }, hour: { burst: 5 } },
    [50, 600],
  ],
];

for (const [name, createStore] of Object.entries(stores)) {
  describe(`overrides of processes with other policies, on ${name}`, () => {
    let made = 0;
    const open = () => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const of = `other ${made++}`;
      const limiter = (options: Options) =>
        limiterOn(inProcess(store), { name: of, overrides: true, ...options } as never);
      return { clock, limiter };
    };
    const limitsOf = async (limiter: Limiter) =>
      (await limiter.peek('ada')).policies.map(({ limit }) => limit);

    for (const [what, ownOptions, otherOptions, change, expected] of cases) {
      it(`the override of a key holds: ${what}`, async () => {
        const { clock, limiter } = open();
        const [own, other] = [limiter(ownOptions), limiter(otherOptions)];
        const before = await limitsOf(other);
        await own.override('ada', change, { for: '1h' });
        expect(await limitsOf(other)).to.deep.equal(expected);
        expect(await limitsOf(limiter(otherOptions))).to.deep.equal(expected);
        const least = Math.min(...expected);
        const { remaining } = await other.consume('ada', { cost: least });
        expect(remaining).to.equal(0);
        expect((await other.usage('ada')).policies.map(({ limit }) => limit)).to.deep.equal(expected);
        await other.reset('ada');
        expect(await other.peek('ada')).to.include({ remaining: least });
        expect((await other.consume('bob')).policies.map(({ limit }) => limit)).to.deep.equal(before);
        clock.now += 3_600_000;
        expect(await limitsOf(other)).to.deep.equal(before);
        await own.override('ada', change);
        expect(await limitsOf(other)).to.deep.equal(expected);
        // The other process writes the same text with the limits of its own policies.
        await other.removeOverride('ada');
        expect([await limitsOf(other), await limitsOf(own)]).to.deep.equal([before, await limitsOf(own)]);
      });

      it(`the override of all keys holds: ${what}`, async () => {
        const { limiter } = open();
        const own = limiter(ownOptions);
        await own.overrideAll(change);
        const other = limiter(otherOptions);
        expect(await limitsOf(other)).to.deep.equal(expected);
        await other.consume('ada');
        await other.removeOverride();
        expect(await limitsOf(other)).to.deep.equal(await limitsOf(limiter(otherOptions)));
      });
    }

    it('a process may repeat the override of another process', async () => {
      const { limiter } = open();
      const [own, other] = [limiter(bucket), limiter({ ...bucket, limit: 200 })];
      for (const each of [own, other, own, other, other]) {
        await each.override('ada', { limit: 1000 });
        expect([await limitsOf(own), await limitsOf(other)]).to.deep.equal([[1000], [1000]]);
        // An operation by hand reads the record of the key.
        await other.reset('ada');
      }
    });

    it("a key's own override is stronger than the limits of all keys", async () => {
      const { limiter } = open();
      const own = limiter(window);
      await own.overrideAll({ limit: 50 });
      await own.override('ada', { limit: 1000 });
      const other = limiter({ limit: 200, window: '2m' });
      expect(await limitsOf(other)).to.deep.equal([1000]);
      expect((await other.peek('bob')).limit).to.equal(50);
      await other.overrideAll({ limit: 60 });
      expect([await limitsOf(other), await limitsOf(own)]).to.deep.equal([[1000], [1000]]);
    });

    it('a changed window keeps its limit, whichever other policies have the same window', async () => {
      const { limiter } = open();
      const own = limiter({ ...window, tiers: { pro: '200/2m' } });
      await own.override('ada', { window: '2m' });
      const limits = async () => [
        (await own.peek('ada')).limit,
        (await own.peek('ada', { tier: 'pro' })).limit,
      ];
      expect(await limits()).to.deep.equal([100, 200]);
      await own.overrideAll({ limit: 50 });
      expect(await limits()).to.deep.equal([100, 200]);
      await own.override('ada', { window: '1m' });
      expect(await limits()).to.deep.equal([100, 200]);
    });
  });
}
