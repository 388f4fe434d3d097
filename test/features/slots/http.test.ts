// The time for which slots of a slow response are renewed, by timers of the test.
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, type Policy } from 'headgate';
import { shortestLease, renewSlots } from '../../../src/http/held-slots.js';
import { ofLimiter, type LimiterDecision } from '../../../src/limiter/decision.js';
import { around } from '../../support/around.js';
import { memory, TestClock } from '../../support/stores.js';

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
    const seen = { renewed: 0, held: 0, hasEnded: false, isHeld: true, isDown: false, hasRoom: true };
    decision.renew = async () => {
      seen.renewed++;
      if (seen.isDown) throw new Error('down');
      return seen.isHeld;
    };
    decision.hold = async () => {
      seen.held++;
      return seen.hasRoom;
    };
    const stop = renewSlots(decision, { look: () => seen.hasEnded }, longest);
    const pass = async (ms: number) => {
      time += ms;
      mock.timers.tick(ms);
      await setImmediate();
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

  it('are renewed again, four times as often, after the store was down, and as before once it is up', async () => {
    const { seen, pass } = await renewing([slots]);
    seen.isDown = true;
    await pass(10_000);
    await pass(2_500);
    await pass(2_500);
    expect(seen.renewed).to.equal(3);
    seen.isDown = false;
    await pass(2_500);
    expect(seen.renewed).to.equal(4);
    await pass(9_999);
    expect(seen.renewed).to.equal(4);
    await pass(1);
    expect(seen).to.include({ renewed: 5, held: 0 });
  });

  it('are taken again if their lease ended while the store was down, or while this process was busy', async () => {
    const { seen, pass } = await renewing([slots]);
    seen.isDown = true;
    await pass(10_000);
    Object.assign(seen, { isDown: false, isHeld: false });
    await pass(2_500);
    expect(seen).to.include({ renewed: 2, held: 1 });
    time += 20_000;
    await pass(10_000);
    expect(seen).to.include({ renewed: 3, held: 2 });
  });

  it('are taken later if the store has no room for them', async () => {
    const { seen, pass } = await renewing([slots]);
    seen.isDown = true;
    await pass(10_000);
    Object.assign(seen, { isDown: false, isHeld: false, hasRoom: false });
    await pass(2_500);
    await pass(2_500);
    expect(seen).to.include({ renewed: 3, held: 2 });
  });

  it('wait for the answer to a renewal before the next', async () => {
    const decision: LimiterDecision = await decide([slots]);
    let renewals = 0;
    decision.renew = () => {
      renewals++;
      return new Promise(() => {});
    };
    const stop = renewSlots(decision, { look: () => false }, 1e6);
    mock.timers.tick(20_000);
    expect(renewals).to.equal(1);
    stop();
  });
});

it('slots are released after the end of a call that takes them again', async () => {
  const inner = memory(new TestClock().read);
  const calls: string[] = [];
  let answer!: () => void;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  const store = around(inner, {
    lease: async (change) => {
      calls.push(change.action);
      if (change.action === 'hold') await answered;
      return inner.lease(change);
    },
  });
  const limiter = createLimiter({ name: 'late', store, policies: [slots], warnings: false });
  const decision = ofLimiter(await limiter.acquire('k'));
  await inner.reset({ set: decision.subject.set, key: 'k' });
  const holding = decision.hold();
  const releasing = decision.release();
  answer();
  expect([await holding, await releasing, calls]).to.deep.equal([true, true, ['hold', 'release']]);
  expect((await limiter.peek('k')).remaining).to.equal(5);
});
