import type { Decision, Limiter, Policy } from 'headgate';
import { TestClock } from 'headgate/testing';
import { expectEqual } from '../expect.js';
import type { Lab } from '../subject.js';

/** The ways to undo a request, or to reduce its charge to that of another request. */
export const WAYS = ['cancel', 'refund', 'settle', 'debt'] as const;
type Way = (typeof WAYS)[number];

export type Step =
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'consume'; readonly cost: number }
  | { readonly do: 'extra'; readonly cost: number; readonly way: Way }
  | { readonly do: 'back'; readonly which: number }
  | { readonly do: 'reset' };

/** Two copies of one world. The second copy never makes the requests that the first copy gives back. */
class Worlds {
  readonly clock: TestClock;
  readonly real: Limiter;
  readonly never: Limiter;
  readonly #charged: { decision: Decision; way: Way }[] = [];

  constructor(clock: TestClock, real: Limiter, never: Limiter) {
    this.clock = clock;
    this.real = real;
    this.never = never;
  }

  async play(step: Step): Promise<void> {
    switch (step.do) {
      case 'wait': {
        // A window begins with a request. An extra request that outlasted every request before would have begun another window.
        const { policies } = await this.never.peek('k', { cost: 0 });
        if (policies.some(({ resetAfterMs }) => resetAfterMs <= step.ms)) await this.giveAllBack();
        this.clock.now += step.ms;
        return;
      }
      case 'consume':
        // Both worlds must give the same answer. Otherwise the traces would differ from here on.
        if (!(await this.real.peek('k', { cost: step.cost })).allowed) return;
        await this.real.consume('k', { cost: step.cost });
        await this.never.consume('k', { cost: step.cost });
        return;
      case 'extra':
        return this.#charge(step);
      case 'back':
        return this.#giveBack(step.which);
      case 'reset':
        await this.real.reset('k');
        await this.never.reset('k');
    }
  }

  async #charge({ cost, way }: { cost: number; way: Way }): Promise<void> {
    const { policies } = await this.never.peek('k', { cost: 0 });
    if (policies.some(({ resetAfterMs }) => resetAfterMs === 0)) return;
    if (way === 'debt') return this.#borrow(cost);
    const decision = await this.real.consume('k', { cost });
    if (decision.allowed) this.#charged.push({ decision, way });
  }

  /** Charges beyond the remaining units and gives the charge back at once, because a debt denies every other request. */
  async #borrow(cost: number): Promise<void> {
    const one = await this.real.consume('k');
    if (!one.allowed) return;
    await one.settle(1 + 100 * cost);
    await one.settle(1);
    await this.never.consume('k');
  }

  async #giveBack(which: number): Promise<void> {
    const [extra] = this.#charged.splice(which % Math.max(1, this.#charged.length), 1);
    if (!extra) return;
    if (extra.way === 'cancel') await extra.decision.cancel();
    else if (extra.way === 'refund') await extra.decision.refund();
    else await extra.decision.settle(0);
  }

  async giveAllBack(): Promise<void> {
    while (this.#charged.length > 0) await this.#giveBack(0);
  }

  async compare(): Promise<void> {
    for (const cost of [0, 1, 2]) {
      const [is, were] = [await this.real.peek('k', { cost }), await this.never.peek('k', { cost })];
      const what = `the verdicts on a cost of ${cost}, as without the refunded charges`;
      expectEqual(what, is.policies, were.policies);
    }
  }
}

export async function openWorlds(lab: Lab, policy: Policy): Promise<Worlds> {
  const clock = new TestClock();
  const [real, never] = [await lab.open(policy, clock), await lab.open(policy, clock)];
  return new Worlds(clock, real.limiter, never.limiter);
}
