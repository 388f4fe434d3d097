// The time for which slots of a slow response are renewed, by timers of the test.
import { mock } from 'node:test';
import { expect } from 'chai';
import { createLimiter, type Policy } from 'headgate';
import { shortestLease, renewSlots } from '../../../src/http/held-slots.js';
import { ofLimiter, type LimiterDecision } from '../../../src/limiter/decision.js';

const slots = { name: 'slots', algorithm: 'concurrency', limit: 5, lease: '30s' } as const;
const minute = { name: 'minute', limit: 5, window: '1s' } as const;

const decide = async (policies: readonly Policy[]) =>
  ofLimiter(await createLimiter({ policies, warnings: false }).consume('k'));

describe('slots of a slow response', () => {
  let time: number;
  let now: ReturnType<typeof mock.method>;

  beforeEach(() => {
    mock.timers.enable({ apis: ['setInterval'] });
    time = 1000;
    now = mock.method(performance, 'now', () => time);
  });

  afterEach(() => {
    now.mock.restore();
    mock.timers.reset();
  });

  /** Renews slots while the test controls the end of the response and the state of the slots. */
  async function renewing(policies: readonly Policy[], longest = 1e6) {
    const decision = await decide(policies);
    const seen = { renewed: 0, hasEnded: false, isHeld: true };
    decision.renew = async () => {
      seen.renewed++;
      return seen.isHeld;
    };
    const stop = renewSlots(decision, { look: () => seen.hasEnded }, longest);
    const pass = async (ms: number) => {
      time += ms;
      mock.timers.tick(ms);
      await Promise.resolve();
      await Promise.resolve();
    };
    return { seen, stop, pass };
  }

  it('have the lease of the policy that frees them first', async () => {
    const leaseOf = async (...policies: Policy[]) => shortestLease((await decide(policies)).set);
    expect(await leaseOf(minute)).to.equal(0);
    expect(await leaseOf(minute, slots)).to.equal(30_000);
    const [short, long] = [
      { ...slots, name: 'short', lease: '20s' } as const,
      { ...slots, name: 'long', lease: '1m' } as const,
    ];
    expect(await leaseOf(slots, short, long)).to.equal(20_000);
    expect(await leaseOf(long, slots)).to.equal(30_000);
  });

  it('are renewed three times a lease, until the listening ends', async () => {
    const { seen, stop, pass } = await renewing([slots]);
    await pass(9_999);
    expect(seen.renewed).to.equal(0);
    await pass(1);
    expect(seen.renewed).to.equal(1);
    await pass(10_000);
    expect(seen.renewed).to.equal(2);
    stop();
    await pass(10_000);
    expect(seen.renewed).to.equal(2);
  });

  it('are not renewed for a response that has ended, nor once they are lost', async () => {
    const { seen, pass } = await renewing([slots]);
    seen.hasEnded = true;
    await pass(10_000);
    expect(seen.renewed).to.equal(0);
    seen.hasEnded = false;
    seen.isHeld = false;
    for (let i = 0; i < 3; i++) await pass(10_000);
    expect(seen.renewed).to.equal(1);
  });

  it('are renewed for renewFor, and no longer', async () => {
    const { seen, pass } = await renewing([slots], 20_000);
    for (let i = 0; i < 4; i++) await pass(10_000);
    expect(seen.renewed).to.equal(2);
  });

  it('need no timer without a lease, and set no timer that Node would fire at once', async () => {
    const timers = mock.method(globalThis, 'setInterval');
    const untimed = await renewing([minute]);
    expect(timers.mock.callCount()).to.equal(0);
    untimed.stop();
    const { seen, pass } = await renewing([{ ...slots, lease: '366d' }], 1e12);
    await pass(2 ** 31 - 1);
    expect(seen.renewed).to.equal(1);
    timers.mock.restore();
  });

  it('are renewed again after the store was down', async () => {
    const decision: LimiterDecision = await decide([slots]);
    let renewals = 0;
    decision.renew = () => Promise.reject(new Error(`away ${++renewals}`));
    const stop = renewSlots(decision, { look: () => false }, 1e6);
    mock.timers.tick(20_000);
    expect(renewals).to.equal(2);
    stop();
  });
});
