import type { Decision } from '../common/decision.js';
import { setTimeout as setRealTimeout } from '../common/real-time.js';
import { notifyUser } from '../common/warnings.js';
import { outboundChannel, type OutboundMessage } from '../contract/diagnostics.js';
import type { Limiter } from '../limiter/limiter.js';

/** A pause in which nothing is sent. */
export interface Pause {
  /** Whose calls pause. */
  readonly key: string;
  /** How long, ms. */
  readonly ms: number;
  /** What the partner answered with. */
  readonly status: number;
}

/** What this process knows of a key. */
interface Known {
  /** When its pause ends, and when that was learnt; its end, if the store could not be told. */
  until: number;
  /** Ends the pause. Fake timers move it, but leave the time of `performance` as it is. */
  timer: NodeJS.Timeout | undefined;
  learnt: number;
  /** When the store last said that there is no pause. */
  clear: number;
  /** When the partner last answered a call, and when the last one went out. Forgotten when a pause begins. */
  answered: number;
  sent: number;
  /** When the first call after a silence went out. */
  coldFrom: number;
  /** Answers in a row that denied and did not say for how long. */
  silent: number;
  /** The question to the store that is under way. */
  look: Promise<void> | undefined;
  /** After a pause: when the next call may go out, and how much later the one after it, ms. */
  next: number;
  gap: number;
}

/** A turn that was reserved earlier than this, ms, is not taken before the store was asked for a pause. */
const STALE = 150;
/** A question to the store may be on its way so long, ms, and so not know of a pause that has begun meanwhile. */
const ON_ITS_WAY = 1000;
/** After a pause the second call goes out so long after the first, ms, and each gap is a part of the one before: two seconds in all. */
const FIRST_GAP = 100;
const GAP_SHRINKS = 0.95;
const RESTART = 2000;
/** The first pause for an answer that does not say how long, ms. Each such answer doubles it, so many times at most. */
const FIRST_PAUSE = 1000;
const MOST_DOUBLED = 10;
/** Others may begin a pause at the same moment. After this time, ms, it is made certain that the longer one counts. */
const SETTLED = 50;
/** The store tells whole milliseconds, and takes some to answer: a pause is longer than another one only by more than this, ms. */
const ROUNDING = 5;
/** After so long without a call, ms, connections are closed. With the first answer, or after this time, ms, they are open again. */
const SILENCE = 4000;
const COLD = 1000;
/** Node fires timers with a longer delay immediately. */
const LONGEST_TIMER = 2 ** 31 - 1;
/** Who begins pauses and widens margins, as `headgate bans` and `headgate overrides` show it. */
export const BY = 'headgate/fetch';
/** The most keys that are remembered. */
export const MOST_KEYS = 10_000;

/** How pauses are made. */
interface PauseOptions {
  /** The longest pause, ms. */
  readonly maxPause: number;
  readonly onPause: ((pause: Pause) => void) | undefined;
  /** Whether the limiter spaces the calls. Then they do not all go out at once after a pause. */
  readonly areSpaced: boolean;
  /** Where the pauses of this process are counted. */
  readonly stats: { pauses: number };
}

/** The pauses that a partner asks for. The processes share them as bans of the limiter. */
export class Pauses {
  readonly #limiter: Limiter;
  readonly #options: PauseOptions;
  readonly #known = new Map<string, Known>();

  constructor(limiter: Limiter, options: PauseOptions) {
    this.#limiter = limiter;
    this.#options = options;
  }

  /** Whether a key pauses, as far as this process knows. */
  isOn(key: string): boolean {
    return this.#of(key).until > performance.now();
  }

  /** How long a call has to wait although the limiter admitted it, ms. */
  async left(key: string, { delayMs, degraded }: Decision): Promise<number> {
    const known = this.#of(key);
    const now = performance.now();
    const isFresh = delayMs <= STALE || Math.max(known.clear, now - delayMs) > now - STALE;
    if (known.until <= now && !isFresh && !degraded && this.#limiter.set.ban) {
      known.look ??= this.#look(key, known);
      await known.look;
    }
    return known.until - performance.now();
  }

  /**
   * After a pause, calls go out one by one, ever faster, lest all that wait go out at once. Spaced ones do so anyway.
   *
   * @returns how long this call has to wait for it, ms
   */
  restart(key: string): number {
    const known = this.#of(key);
    const wait = known.next - performance.now();
    // Nobody has waited for a while.
    if (wait < -RESTART || known.gap < 1 || this.#options.areSpaced) return 0;
    // The pause was ended by hand.
    const after = wait > RESTART ? 0 : Math.max(0, wait);
    known.next = performance.now() + after + known.gap;
    known.gap *= GAP_SHRINKS;
    return after;
  }

  /** Notes what the store said. */
  see({ key, reason, retryAfterMs, allowed, degraded, delayMs, charged }: Decision): void {
    if (degraded) return;
    const known = this.#of(key);
    const now = performance.now();
    if (reason === 'banned') {
      this.#pauseUntil(known, Math.max(known.until, now + retryAfterMs));
    } else if (allowed) {
      known.clear = now;
      // A question may have been on its way while this process began a pause. Later ones tell that it was ended by hand.
      if (known.learnt < now - ON_ITS_WAY) known.until = 0;
      // Asking when the turn has come would make the call late.
      if (delayMs > STALE && charged > 0)
        setRealTimeout(() => this.#lookAhead(key, known), delayMs - STALE / 2).unref();
    }
  }

  /** The partner has answered a call, and did not turn it away. */
  answered(key: string): void {
    Object.assign(this.#of(key), { silent: 0, answered: performance.now() });
  }

  /**
   * A call goes out.
   *
   * @returns whether it may arrive late: the partner has not answered yet, after a silence or a pause, so connections are opened and code is
   * loaded. An answer that takes longer says nothing about that.
   */
  goesOut(key: string): boolean {
    const known = this.#of(key);
    const now = performance.now();
    if (now - Math.max(known.answered, known.sent) > SILENCE) known.coldFrom = now;
    known.sent = now;
    return known.answered < known.coldFrom && now - known.coldFrom < COLD;
  }

  /**
   * The partner has turned a call away.
   *
   * @param waitMs the wait that the partner asks for, ms; `undefined` if its answer names none
   * @returns how long the key pauses, ms
   */
  turnedAway(key: string, status: number, waitMs: number | undefined): number {
    const known = this.#of(key);
    let ms = waitMs ?? 0;
    // Calls that were under way when a pause began tell nothing new.
    if (ms === 0 && !this.isOn(key)) {
      // `Retry-After: 0` is obeyed once. If the server repeats it, the pause doubles.
      const isObeyed = waitMs === 0 && known.silent === 0;
      if (!isObeyed) ms = FIRST_PAUSE * 2 ** Math.min(known.silent, MOST_DOUBLED);
      known.silent++;
    }
    return this.begin(key, ms, status);
  }

  /** Begins a pause, for all processes. Returns its length. A longer one is never cut short. */
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

  #pauseUntil(known: Known, until: number): void {
    Object.assign(known, { until, next: until, gap: FIRST_GAP, answered: -Infinity, sent: -Infinity });
    clearTimeout(known.timer);
    const ms = Math.ceil(until - performance.now());
    if (ms > LONGEST_TIMER) return;
    const end = (): void => {
      known.until = 0;
      known.next = Math.min(known.next, performance.now());
    };
    known.timer = setTimeout(end, Math.max(0, ms));
    // The timers of some fakes have no such method.
    known.timer.unref?.();
  }

  /** Asks before a turn comes, unless the store has just been asked. */
  #lookAhead(key: string, known: Known): void {
    if (this.#limiter.set.ban && known.clear <= performance.now() - STALE / 2)
      known.look ??= this.#look(key, known);
  }

  /** Asks the store whether there is a pause. */
  async #look(key: string, known: Known): Promise<void> {
    try {
      this.see(await this.#limiter.peek(key));
    } catch {
      // Without the store, nobody knows of a pause. What happens to calls then was decided by the limiter.
    } finally {
      known.look = undefined;
    }
  }

  /** Tells the store of a pause. */
  async #share(key: string, until: number, status: number): Promise<void> {
    try {
      for (const after of [0, SETTLED]) {
        if (after > 0) await this.#limiter.internals.waits.sleep(after, undefined);
        // A longer pause of this process has come in between, and is shared by itself.
        if (this.#of(key).until > until + ROUNDING) return;
        const { reason, retryAfterMs = 0 } = await this.#limiter.peek(key);
        const left = Math.ceil(until - performance.now());
        if (left <= 0) return;
        if (reason !== 'banned' || retryAfterMs + ROUNDING < left)
          await this.#limiter.ban(key, left, { by: BY, reason: `answered ${status}` });
      }
    } catch {
      // This process pauses all the same, though the store knows of no pause. Others learn of it by an answer of their own.
      const known = this.#of(key);
      known.learnt = Math.max(known.learnt, until);
    }
  }

  #of(key: string): Known {
    let known = this.#known.get(key);
    if (!known) {
      if (this.#known.size >= MOST_KEYS) this.#known.delete(this.#known.keys().next().value!);
      known = {
        ...{ until: 0, timer: undefined, learnt: -Infinity, clear: -Infinity },
        ...{ answered: -Infinity, sent: -Infinity, coldFrom: -Infinity },
        ...{ silent: 0, look: undefined, next: 0, gap: 0 },
      };
      this.#known.set(key, known);
    }
    return known;
  }
}
