import type { Decision } from '../common/decision.js';
import { setTimeout } from '../common/real-time.js';
import { ofLimiter } from '../limiter/decision.js';
import type { OverrideChange } from '../limiter/overrides/override.js';
import type { Limiter } from '../limiter/limiter.js';
import { spacedWindow, type Partner } from './pacing.js';
import { BY, MOST_KEYS } from './pauses.js';

/** The factor by which the margin grows with a 429, and shrinks while there is none, and the largest margin. */
const FACTOR = 2;
const MOST_MARGIN = 0.2;
/** How long a margin is remembered, s. */
const LASTS = 3600;
/**
 * How long no call must have been denied before the margin shrinks, s. Each 429 doubles it, so that a machine that needs the margin is not
 * denied again and again.
 */
const CALM = 10;
/** Several processes may be denied for one cause. Within this time, ms, they widen the margin once. */
const ONE_CAUSE = 5000;
/** A process looks at most this often, ms, whether the margin of a key may shrink. */
const LOOK = 5000;

/** A margin that was learnt, as the reason of its override stores it. */
interface Learnt {
  readonly margin: number;
  /** How long no call must have been denied before it shrinks, s. */
  readonly calm: number;
}

/** The margins by which the windows of keys are longer than the partner's, learnt for all processes by overrides. */
export class Margins {
  readonly #limiter: Limiter;
  readonly #configured: number;
  readonly #paced: readonly Partner[];
  readonly #charge: (key: string, name: string, units: number) => Promise<void>;
  /** By key: when this process last looked whether the margin may shrink. */
  readonly #looked = new Map<string, number>();

  /** @param charge charges units of a policy, as many at once as a call costs */
  constructor(
    limiter: Limiter,
    configured: number,
    partners: readonly Partner[],
    charge: (key: string, name: string, units: number) => Promise<void>,
  ) {
    this.#limiter = limiter;
    this.#charge = charge;
    this.#configured = configured;
    this.#paced = partners.filter(({ isPaced }) => isPaced);
  }

  /**
   * The partner denied a call, because calls arrived closer together than they were admitted. The margin changes after the pause, when the
   * turns that were given by the old one are given back.
   */
  widenAfter(key: string, pauseMs: number): void {
    setTimeout(() => void this.#widen(key), pauseMs).unref();
  }

  #widen(key: string): Promise<void> {
    return this.#change(key, (learnt, age) => {
      if (age < ONE_CAUSE) return undefined;
      const { margin, calm } = learnt ?? { margin: this.#configured, calm: CALM / FACTOR };
      return { margin: Math.min(MOST_MARGIN, FACTOR * margin), calm: Math.min(LASTS, FACTOR * calm) };
    });
  }

  /** The partner answered a call. If it has denied none for long enough, the margin shrinks. Never rejects. */
  async narrow(key: string, decision: Decision): Promise<void> {
    if (!this.#isWide(decision)) return;
    const now = performance.now();
    if ((this.#looked.get(key) ?? -Infinity) > now - LOOK) return;
    if (this.#looked.size >= MOST_KEYS) this.#looked.clear();
    this.#looked.set(key, now);
    await this.#change(key, (learnt, age) => {
      if (!learnt || age < 1000 * learnt.calm) return undefined;
      return { ...learnt, margin: Math.max(this.#configured, learnt.margin / FACTOR) };
    });
  }

  /** Whether an override made the windows of a decision longer than they are configured. */
  #isWide(decision: Decision): boolean {
    const { policies } = ofLimiter(decision).set;
    return this.#paced.some(({ name }) => {
      const configured = this.#limiter.policies.find((each) => each.name === name);
      const inForce = policies.find((each) => each.name === name);
      return configured && inForce && inForce.window > configured.window;
    });
  }

  /** By policy: how far ahead turns are reserved by the windows in force, ms. */
  async #reserved(key: string): Promise<ReadonlyMap<string, number>> {
    const { policies } = await this.#limiter.peek(key);
    return new Map(policies.map(({ name, resetAfterMs }) => [name, resetAfterMs]));
  }

  /** Changes the margin of a key, unless an operator has made an override. */
  async #change(
    key: string,
    changed: (learnt: Learnt | undefined, ageMs: number) => Learnt | undefined,
  ): Promise<void> {
    if (this.#paced.length === 0) return;
    try {
      const last = await this.#limiter.overrideOf(key);
      if (last && last.by !== BY) return;
      const learnt = last && learntOf(last.reason);
      const next = changed(learnt, last ? Date.now() - last.since.getTime() : Infinity);
      if (!next) return;
      const { margin, calm } = next;
      const windows = this.#paced.map(({ name, windowMs }) => [
        name,
        { window: spacedWindow(windowMs, margin) },
      ]);
      const ahead = await this.#reserved(key);
      await this.#limiter.override(key, Object.fromEntries(windows) as OverrideChange, {
        ...{ for: `${LASTS}s`, by: BY, reason: `margin ${margin}, shrinks after ${calm} s` },
      });
      // Another window counts anew, but calls that wait keep the turns that they have. New turns begin after those.
      const charges = this.#paced.flatMap(({ name, limit, windowMs }) => {
        const turns = Math.ceil(((ahead.get(name) ?? 0) * limit) / (windowMs * (1 + margin)));
        // A bucket of calls of 1 admits no larger cost.
        return Array.from({ length: turns }, () => this.#charge(key, name, 1));
      });
      await Promise.all(charges);
    } catch {
      // A later answer tries it again. Until then, calls go out as before.
    }
  }
}

function learntOf(reason: string | undefined): Learnt {
  const [, margin, calm] = /^margin (\S+), shrinks after (\S+) s$/.exec(reason ?? '') ?? [];
  return { margin: Number(margin ?? MOST_MARGIN), calm: Number(calm ?? CALM) };
}
