// Bans by denials, each longer than the one before, and bans by hand.
import type { Ban } from './types.js';

interface State {
  /** The end of the ban in force or before. */
  until: number;
  denials: number;
  /** The end of the span in which denials count together. */
  spanEnds: number;
  /** The length of the last ban by denials, 0 without one. */
  length: number;
  /** The time at which earlier bans are forgotten. */
  forgottenAt: number;
}

export class Bans {
  private readonly states = new Map<string, State>();
  private readonly ban: Ban;
  constructor(ban: Ban) {
    this.ban = ban;
  }

  /** The rest of the key's ban, or 0. */
  rest(key: string, now: number): number {
    return Math.max(0, (this.states.get(key)?.until ?? 0) - now);
  }

  /** Counts a denial. @returns the length of the ban that it causes, or 0 */
  denied(key: string, now: number): number {
    const { after, within, factor, max } = this.ban;
    if (after === undefined) return 0;
    const state = this.of(key);
    if (now >= state.spanEnds || state.denials === 0) {
      state.denials = 0;
      state.spanEnds = now + within;
    }
    state.denials++;
    if (state.denials < after) return 0;
    const isLater = state.length > 0 && now < state.forgottenAt;
    state.length = Math.min(max, isLater ? Math.floor(state.length * factor) : this.ban.for);
    state.until = now + state.length;
    state.forgottenAt = state.until + max;
    state.denials = 0;
    return state.length;
  }

  byHand(key: string, now: number, length: number): void {
    const state = this.of(key);
    if (now >= state.forgottenAt) state.length = 0;
    state.until = now + length;
    // Earlier bans are forgotten when `max` has passed since the end of the last one, also of one by hand.
    state.forgottenAt = state.until + this.ban.max;
  }

  end(key: string): void {
    this.states.delete(key);
  }

  private of(key: string): State {
    const fresh = { until: 0, denials: 0, spanEnds: 0, length: 0, forgottenAt: 0 };
    const state = this.states.get(key) ?? fresh;
    this.states.set(key, state);
    return state;
  }
}
