import { warnOfBackground } from '../common/background.js';
import type { Decision } from '../common/decision.js';
import { sparingly } from '../common/memo.js';
import { setTimeout } from '../common/real-time.js';
import { ofLimiter } from '../limiter/decision.js';
import type { OverrideChange } from '../limiter/overrides/override.js';
import type { Limiter } from '../limiter/limiter.js';
import { spacedWindow, type Partner } from './pacing.js';
import { BY, MAX_KEYS } from './pauses.js';

/** The factor by which the margin grows after a 429 and shrinks without one, and the largest margin. */
const FACTOR = 2;
const MAX_MARGIN = 0.2;
const MARGIN_LIFETIME_S = 3600;
/**
 * The time without a denial before the margin shrinks, s. Each 429 doubles the time, so that a machine with a need for the margin is not
 * denied again and again.
 */
const FIRST_CALM_S = 10;
/** The time in which denials of several processes count as one cause, ms. The margin is widened once per cause. */
const SAME_CAUSE_MS = 5000;
/** The minimum time between two checks of a process whether the margin of a key may shrink, ms. */
const CHECK_INTERVAL_MS = 5000;

/** A learnt margin, as stored in the reason of its override. */
interface LearntMargin {
  readonly margin: number;
  /** The time without a denial after which the margin shrinks, s. */
  readonly calm: number;
}

/** The fractions by which the windows of keys are longer than the partner's, learnt for all processes by overrides. */
export class Margins {
  readonly #limiter: Limiter;
  readonly #configured: number;
  readonly #paced: readonly Partner[];
  readonly #charge: (key: string, name: string, units: number) => Promise<void>;
  /** By key, the time of the last check whether the margin may shrink. */
  readonly #isDue = sparingly(MAX_KEYS, CHECK_INTERVAL_MS);

  /** @param charge charges units of a policy */
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
   * Widens the margin after a denial, which means that calls arrived closer together than they were admitted. The margin changes after the
   * pause, when the turns of the old margin have been returned.
   */
  widenAfter(key: string, pauseMs: number): void {
    setTimeout(() => void this.#widen(key), pauseMs).unref();
  }

  #widen(key: string): Promise<void> {
    return this.#change(key, (learnt, age) => {
      if (age < SAME_CAUSE_MS) return undefined;
      const { margin, calm } = learnt ?? { margin: this.#configured, calm: FIRST_CALM_S / FACTOR };
      return {
        margin: Math.min(MAX_MARGIN, FACTOR * margin),
        calm: Math.min(MARGIN_LIFETIME_S, FACTOR * calm),
      };
    });
  }

  /** Shrinks the margin after an answer, if the partner has not denied a call for long enough. Never rejects. */
  async narrow(key: string, decision: Decision): Promise<void> {
    if (!this.#isWide(decision) || !this.#isDue(key)) return;
    await this.#change(key, (learnt, age) => {
      if (!learnt || age < 1000 * learnt.calm) return undefined;
      return { ...learnt, margin: Math.max(this.#configured, learnt.margin / FACTOR) };
    });
  }

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

  /** Changes the margin of a key, unless an operator has created an override. */
  async #change(
    key: string,
    changed: (learnt: LearntMargin | undefined, ageMs: number) => LearntMargin | undefined,
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
        ...{ for: `${MARGIN_LIFETIME_S}s`, by: BY, reason: `margin ${margin}, shrinks after ${calm} s` },
      });
      // A new window counts anew, but waiting calls keep their turns, so new turns begin after the kept turns.
      const charges = this.#paced.flatMap(({ name, limit, windowMs }) => {
        const turns = Math.ceil(((ahead.get(name) ?? 0) * limit) / (windowMs * (1 + margin)));
        // A bucket of calls of 1 admits no larger cost.
        return Array.from({ length: turns }, () => this.#charge(key, name, 1));
      });
      await Promise.all(charges);
    } catch (error) {
      warnOfBackground('A margin was not charged', error);
      // A later answer causes another attempt. Until then the old margin stays.
    }
  }
}

function learntOf(reason: string | undefined): LearntMargin {
  const [, margin, calm] = /^margin (\S+), shrinks after (\S+) s$/.exec(reason ?? '') ?? [];
  return { margin: Number(margin ?? MAX_MARGIN), calm: Number(calm ?? FIRST_CALM_S) };
}
