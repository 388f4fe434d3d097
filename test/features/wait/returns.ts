// Waiting requests that only units given back can admit.
import { expect } from 'chai';
import type { HeadgateError, Limiter, Store } from 'headgate';
import { limiterOn } from '../../support/clock.js';

const QUOTA = { algorithm: 'fixed-window', limit: 10, window: '1h' } as const;

const outcomeOf = (wait: Promise<{ allowed: boolean }>) =>
  wait.then(
    ({ allowed }) => allowed,
    (error: HeadgateError) => error.code,
  );

/** @param create creates two stores on one state, as of two processes, or a store that both use */
export function describeWaitReturns(
  name: string,
  create: () => readonly [Store, Store] | readonly [Store],
): void {
  describe(`limiter.wait for units that are given back, on ${name}`, () => {
    const limiters = (options: object): [here: Limiter, there: Limiter] => {
      const [here, there = here] = create();
      const make = (store: Store) => limiterOn(store, { name: 'returns', ...options } as never);
      return [make(here), make(there)];
    };

    for (const where of ['here', 'there'] as const) {
      const by = where === 'here' ? 'this process' : 'another process';

      it(`goes on when ${by} refunds or settles a request, long before the quota is back`, async () => {
        const [here, there] = limiters(QUOTA);
        const running = await (where === 'here' ? here : there).consume('k', { cost: 10 });
        const waits = [4, 5].map((cost) => outcomeOf(here.wait('k', { cost, timeout: '20s' })));
        await here.peek('other');
        await running.settle(6);
        expect(await waits[0]).to.be.true;
        await running.refund();
        expect(await waits[1]).to.be.true;
        expect((await there.peek('k')).remaining).to.equal(1);
      });
    }

    it('is decided after all of a refund, also of units that were charged in several steps', async () => {
      const [here] = limiters(QUOTA);
      const running = await here.consume('k', { cost: 4 });
      await running.settle(10);
      const wait = here.wait('k', { timeout: '20s' });
      await here.peek('other');
      await running.refund();
      expect((await wait).remaining).to.equal(9);
    });

    it('is decided after all of a settlement, which takes units of one policy back and charges another', async () => {
      const [here] = limiters({
        policies: [
          { ...QUOTA, name: 'requests' },
          { ...QUOTA, name: 'tokens' },
        ],
      });
      const running = await here.consume('k', { cost: { requests: 10, tokens: 1 } });
      const wait = here.wait('k', { timeout: '20s' });
      await here.peek('other');
      await running.settle({ requests: 1, tokens: 5 });
      expect((await wait).policies.map(({ remaining }) => remaining)).to.deep.equal([8, 4]);
    });

    it('ends at its timeout without a refund, and charges nothing; a cost above the capacity ends at once', async () => {
      const [here] = limiters(QUOTA);
      await here.consume('k', { cost: 10 });
      // The first answer must arrive before the timeout, on a busy machine, too.
      const late = here.wait('k', { timeout: 500 }).catch((error: HeadgateError) => error);
      expect(await late).to.have.property('code', 'HEADGATE_WAIT_TIMEOUT');
      expect(await late).to.have.nested.property('decision.reason', 'quota-exceeded');
      expect(await outcomeOf(here.wait('k', { cost: 11, timeout: '20s' }))).to.equal('HEADGATE_DENIED');
      expect((await here.usage('k')).policies[0]).to.include({ used: 10 });
    });

    it('ends at once if a ban outlasts the timeout, because no refund ends a ban', async () => {
      const [here] = limiters({ ...QUOTA, ban: { after: 5 } });
      await here.ban('k', '1h');
      expect(await outcomeOf(here.wait('k', { timeout: '20s' }))).to.equal('HEADGATE_WAIT_TIMEOUT');
    });
  });
}
