import { warnOfBackground } from '../common/background.js';
import type { Denial } from './denial.js';
import type { Decision } from '../common/decision.js';
import { setTimeout as setRealTimeout } from '../common/real-time.js';
import { MAX_TIMER_MS } from '../common/timing.js';
import { notifyUser } from '../common/warnings.js';
import { outboundChannel, type OutboundMessage } from '../contract/diagnostics.js';
import type { Limiter } from '../limiter/limiter.js';

/** A pause in which no call of a key is sent. */
export interface Pause {
  /** The key whose calls pause. */
  readonly key: string;
  /** The length of the pause, ms. */
  readonly ms: number;
  /** The status of the partner's answer. */
  readonly status: number;
}

interface KeyState {
  /** The end of the pause. `learnt` is the time of the news, or the pause's end if the store could not store it. */
  until: number;
  /** The timer at the end of the pause. Fake timers move the timer, but leave the time of `performance` unchanged. */
  timer: NodeJS.Timeout | undefined;
  learnt: number;
  /** When the store last reported that there is no pause. */
  clear: number;
  /** When the partner last answered a call, and when the last call went out. Reset when a pause begins. */
  answered: number;
  sent: number;
  /** While connections are cold: settles with the answer to the first call, or by `warm`. */
  warming: Promise<void> | undefined;
  warm: () => void;
  /** The number of consecutive denials without a wait. */
  silent: number;
  /** The pending query to the store. */
  look: Promise<void> | undefined;
  /** After a pause: when the next call may go out, and the gap to the call after it, ms. */
  next: number;
  gap: number;
}

/** The age of a reserved turn, ms, from which the store is queried for a pause before the turn is used. */
const STALE_MS = 150;
/** The longest way of a query to the store, ms. A query on its way can miss a pause that begins in the meantime. */
const MAX_QUERY_MS = 1000;
/** The gap between the first two calls after a pause, ms. Each gap is a fraction of the gap before: two seconds in all. */
const FIRST_GAP_MS = 100;
const GAP_FACTOR = 0.95;
const RESTART_MS = 2000;
/** The first pause after a denial without a wait, ms. Each further such denial doubles the pause, up to this many times. */
const FIRST_PAUSE_MS = 1000;
const MAX_DOUBLINGS = 10;
/** The time, ms, after which a shared pause is checked again, because another process may have begun a shorter pause at the same moment. */
const RECHECK_MS = 50;
/** The difference from which a pause counts as longer than another, ms: the store rounds to milliseconds and takes some to answer. */
const ROUNDING_MS = 5;
/** The time without a call after which connections are cold, ms, and the longest time for which calls wait for the first answer. */
const SILENCE_MS = 4000;
export const COLD_MS = 1000;
/** The author of pauses and margins, as shown by `headgate bans` and `headgate overrides`. */
export const BY = 'headgate/fetch';
export const MAX_KEYS = 10_000;

interface PauseOptions {
  /** The longest pause, ms. */
  readonly maxPause: number;
  readonly onPause: ((pause: Pause) => void) | undefined;
  /** Whether the limiter spaces the calls, so that calls do not all go out at once after a pause. */
  readonly areSpaced: boolean;
  readonly stats: { pauses: number };
}

/** The pauses requested by a partner. Processes share a pause as a ban of the limiter. */
export class Pauses {
  readonly #limiter: Limiter;
  readonly #options: PauseOptions;
  readonly #known = new Map<string, KeyState>();

  constructor(limiter: Limiter, options: PauseOptions) {
    this.#limiter = limiter;
    this.#options = options;
  }

  /** Whether a key is paused, as far as this process knows. */
  isOn(key: string): boolean {
    return this.#of(key).until > performance.now();
  }

  /** The remaining wait of a call that the limiter admitted, ms. */
  async left(key: string, { delayMs, degraded }: Decision): Promise<number> {
    const known = this.#of(key);
    const now = performance.now();
    const isFresh = delayMs <= STALE_MS || Math.max(known.clear, now - delayMs) > now - STALE_MS;
    if (known.until <= now && !isFresh && !degraded && this.#limiter.set.ban) {
      known.look ??= this.#look(key, known);
      await known.look;
    }
    return known.until - performance.now();
  }

  /**
   * Spaces the calls after a pause with ever smaller gaps, so that waiting calls do not go out at once. Calls spaced by the limiter need no
   * further gap.
   *
   * @returns the wait of this call, ms
   */
  restart(key: string): number {
    const known = this.#of(key);
    const wait = known.next - performance.now();
    // No call has waited for a while.
    if (wait < -RESTART_MS || known.gap < 1 || this.#options.areSpaced) return 0;
    // The pause was ended by hand.
    const after = wait > RESTART_MS ? 0 : Math.max(0, wait);
    known.next = performance.now() + after + known.gap;
    known.gap *= GAP_FACTOR;
    return after;
  }

  /** Reads the store's statement about pauses from a decision. */
  see({ key, reason, retryAfterMs, allowed, degraded, delayMs, charged }: Decision): void {
    if (degraded) return;
    const known = this.#of(key);
    const now = performance.now();
    if (reason === 'banned') {
      this.#pauseUntil(known, Math.max(known.until, now + retryAfterMs));
    } else if (allowed) {
      known.clear = now;
      // The query may have been sent before this process began a pause. A later query shows that the pause was ended by hand.
      if (known.learnt < now - MAX_QUERY_MS) known.until = 0;
      // A query at the time of the turn would delay the call.
      if (delayMs > STALE_MS && charged > 0)
        setRealTimeout(() => this.#lookAhead(key, known), delayMs - STALE_MS / 2).unref();
    }
  }

  /** Handles an answer of the partner that is not a denial. */
  answered(key: string): void {
    Object.assign(this.#of(key), { silent: 0, answered: performance.now() });
    this.ended(key);
  }

  /** Whether a call is the first after a silence or a pause. It arrives late, because connections are opened and code is loaded. */
  isFirst(key: string): boolean {
    const known = this.#of(key);
    if (known.warming || performance.now() - Math.max(known.answered, known.sent) <= SILENCE_MS) return false;
    const warming = new Promise<void>((resolve) => {
      known.warm = () => {
        if (known.warming === warming) known.warming = undefined;
        resolve();
      };
    });
    known.warming = warming;
    setRealTimeout(known.warm, COLD_MS).unref();
    return true;
  }

  /** The end of the first call, or `undefined` while connections are warm. */
  warming(key: string): Promise<void> | undefined {
    return this.#of(key).warming;
  }

  /** Handles the end of a call, also of one without an answer. */
  ended(key: string): void {
    this.#of(key).warm();
  }

  goesOut(key: string): void {
    this.#of(key).sent = performance.now();
  }

  /**
   * Handles a denial by the partner.
   *
   * @returns the length of the key's pause, ms
   */
  turnedAway(key: string, status: number, { ms: waitMs, isGuess = false }: Denial): number {
    const known = this.#of(key);
    let ms = waitMs ?? 0;
    // Answers to calls from before the pause contain no news.
    if ((ms === 0 || isGuess) && !this.isOn(key)) {
      // `Retry-After: 0` is obeyed once. If the server repeats it, the pause doubles.
      const isObeyed = waitMs === 0 && known.silent === 0;
      if (!isObeyed) ms = Math.max(ms, FIRST_PAUSE_MS * 2 ** Math.min(known.silent, MAX_DOUBLINGS));
      known.silent++;
    }
    return this.begin(key, ms, status);
  }

  /** Begins a pause for all processes, unless a longer pause is in force. @returns the length of the pause, ms */
  begin(key: string, wanted: number, status: number): number {
    const { maxPause, onPause, stats } = this.#options;
    const ms = Math.max(1, Math.min(Math.ceil(wanted), maxPause));
    const known = this.#of(key);
    const now = performance.now();
    known.learnt = Math.max(known.learnt, now);
    const before = Math.max(0, known.until - now);
    const isLonger = ms > before;
    if (outboundChannel.hasSubscribers) {
      const pauseMs = isLonger ? ms - before : 0;
      const limiter = this.#limiter.name;
      outboundChannel.publish({ limiter, key, status, pauseMs } satisfies OutboundMessage);
    }
    if (!isLonger) return Math.ceil(before);
    this.#pauseUntil(known, now + ms);
    if (before === 0) stats.pauses++;
    if (onPause) notifyUser('onPause', onPause, { key, ms, status });
    if (this.#limiter.set.ban) void this.#share(key, known.until, status);
    return ms;
  }

  #pauseUntil(known: KeyState, until: number): void {
    Object.assign(known, { until, next: until, gap: FIRST_GAP_MS, answered: -Infinity, sent: -Infinity });
    known.warm();
    clearTimeout(known.timer);
    const ms = Math.ceil(until - performance.now());
    if (ms > MAX_TIMER_MS) return;
    const end = (): void => {
      known.until = 0;
      known.next = Math.min(known.next, performance.now());
    };
    known.timer = setTimeout(end, Math.max(0, ms));
    // Some fake timers have no such method.
    known.timer.unref?.();
  }

  /** Queries the store before a turn, unless a query has just been made. */
  #lookAhead(key: string, known: KeyState): void {
    if (this.#limiter.set.ban && known.clear <= performance.now() - STALE_MS / 2)
      known.look ??= this.#look(key, known);
  }

  async #look(key: string, known: KeyState): Promise<void> {
    try {
      this.see(await this.#limiter.peek(key));
    } catch (error) {
      warnOfBackground('The pauses of other processes were not read', error);
      // Without the store, the pauses of other processes are unknown, and the limiter has already decided about calls.
    } finally {
      known.look = undefined;
    }
  }

  /** Shares a pause with other processes through the store. */
  async #share(key: string, until: number, status: number): Promise<void> {
    try {
      for (const after of [0, RECHECK_MS]) {
        if (after > 0) await this.#limiter.internals.waits.sleep(after, undefined);
        // This process has begun a longer pause in the meantime, which is shared separately.
        if (this.#of(key).until > until + ROUNDING_MS) return;
        const { reason, retryAfterMs = 0 } = await this.#limiter.peek(key);
        const left = Math.ceil(until - performance.now());
        if (left <= 0) return;
        if (reason !== 'banned' || retryAfterMs + ROUNDING_MS < left)
          await this.#limiter.ban(key, `${left}ms`, { by: BY, reason: `answered ${status}` });
      }
    } catch (error) {
      warnOfBackground('A pause was not shared with other processes', error);
      // This process pauses even though the store has not stored the pause. Other processes learn about the limit from their own answers.
      const known = this.#of(key);
      known.learnt = Math.max(known.learnt, until);
    }
  }

  #of(key: string): KeyState {
    let known = this.#known.get(key);
    if (!known) {
      if (this.#known.size >= MAX_KEYS) this.#known.delete(this.#known.keys().next().value!);
      known = {
        ...{ until: 0, timer: undefined, learnt: -Infinity, clear: -Infinity },
        ...{ answered: -Infinity, sent: -Infinity, warming: undefined, warm: () => {} },
        ...{ silent: 0, look: undefined, next: 0, gap: 0 },
      };
      this.#known.set(key, known);
    }
    return known;
  }
}
