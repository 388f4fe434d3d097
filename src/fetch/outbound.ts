import { HeadgateError } from '../common/errors.js';
import type { Decision } from '../common/decision.js';
import { clearTimeout, setTimeout } from '../common/real-time.js';
import { warnOfRejected, warnOfThrown } from '../common/warnings.js';
import type { Cost } from '../contract/costs.js';
import { outboundChannel, type OutboundMessage } from '../contract/diagnostics.js';
import { ofLimiter } from '../limiter/decision.js';
import type { OverrideChange } from '../limiter/live-limits.js';
import type { Limiter } from '../limiter/limiter.js';
import { readAnswer, type Field, type Quota } from './answer.js';
import { MARGIN, spacedWindow, type Partner } from './pacing.js';

/** A call, as the options `key` and `cost` see it. */
export interface OutboundRequest {
  /** The whole address. */
  readonly url: string;
  /** In upper case. */
  readonly method: string;
  /** The header fields. */
  readonly headers: Headers;
}

/** A pause in which nothing is sent. */
export interface Pause {
  /** Whose calls pause. */
  readonly key: string;
  /** How long, ms. */
  readonly ms: number;
  /** What the partner answered with. */
  readonly status: number;
}

/** What happened to the calls of this process so far. */
export interface OutboundStats {
  /** Calls that were admitted, retries included. */
  readonly calls: number;
  /** Calls that were sent again. */
  readonly retries: number;
  /** Answers that said that a limit was exceeded (429). */
  readonly violations: number;
  /** Pauses that this process began. */
  readonly pauses: number;
}

/** What this process knows of a key. */
interface Known {
  /** When its pause ends, and when that was learnt. */
  until: number;
  learnt: number;
  /** When the store last said that there is no pause. */
  clear: number;
  /** Answers in a row that denied and did not say for how long. */
  silent: number;
  /** The question to the store that is under way. */
  look: Promise<void> | undefined;
  /** When a quota was last compared with the partner's. */
  compared: number;
  /** After a pause: when the next call may go out, and how much later the one after it, ms. */
  next: number;
  gap: number;
}

/** A turn that was reserved earlier than this, ms, is not taken before the store was asked for a pause. */
const STALE = 150;
/** A process compares what is left at most this often, ms, so that others have time to see what it charged. */
const COMPARE = 1000;
/** After a pause the second call goes out so long after the first, ms, and each gap is a part of the one before: two seconds in all. */
const FIRST_GAP = 100;
const GAP_SHRINKS = 0.95;
const RESTART = 2000;
/** Others may begin a pause at the same moment. After this time, ms, it is made certain that the longer one counts. */
const SETTLED = 50;
/** The part of the margin by which a call may be late before turns are given up for it, and the most turns. */
const LATE_PART = 4 / 5;
const MOST_GIVEN_UP = 5;
/** Who begins pauses and widens margins, as `headgate bans` and `headgate overrides` show it. */
const BY = 'headgate/fetch';
/** How the margin grows with an answer of 429, how large it becomes at most, and how long what was learnt so counts. */
const MARGIN_GROWS = 2;
const MOST_MARGIN = 0.2;
const MARGIN_LASTS = '1h';
/** Several processes may be denied for one cause. Within this time, ms, they widen the margin once. */
const ONE_CAUSE = 5000;
/** Node fires timers with a longer delay immediately. */
const LONGEST_TIMER = 2 ** 31 - 1;
/** The most keys that are remembered. */
const MOST_KEYS = 10_000;

/** Lets calls go out when the limiter and the partner allow it. */
export class Outbound {
  readonly stats = { calls: 0, retries: 0, violations: 0, pauses: 0 };
  readonly limiter: Limiter;
  readonly #partners: readonly Partner[];
  readonly #maxPause: number;
  readonly #learn: boolean;
  /** The margin that is configured, if it is learnt. */
  readonly #margin: number | undefined;
  readonly #onPause: ((pause: Pause) => void) | undefined;
  readonly #known = new Map<string, Known>();
  /** When the calls that were decided by the store may go out. */
  readonly #due = new WeakMap<Decision, number>();

  constructor(
    limiter: Limiter,
    partners: readonly Partner[],
    options: {
      maxPause: number;
      learn: boolean;
      margin: number | undefined;
      onPause: ((pause: Pause) => void) | undefined;
    },
  ) {
    this.limiter = limiter;
    this.#partners = partners;
    this.#maxPause = options.maxPause;
    this.#learn = options.learn;
    this.#margin = options.margin;
    this.#onPause = options.onPause;
  }

  /** Waits until a call may go out, and charges it. @throws as `limiter.wait` */
  async admit(
    key: string,
    cost: Cost,
    deadline: number,
    signal: AbortSignal | undefined,
    priority: number,
  ): Promise<Decision> {
    for (let hasRestarted = false; ;) {
      const left = deadline - performance.now();
      const decision = await this.limiter.wait(key, {
        cost,
        priority,
        ...(left !== Infinity && { timeout: Math.max(1, Math.ceil(left)) }),
        ...(signal && { signal }),
      });
      let pause: number;
      try {
        pause = await this.#pauseOf(key, decision);
      } catch (error) {
        await decision.cancel();
        throw error;
      }
      if (pause <= 0 && !hasRestarted) {
        pause = this.#restart(key);
        hasRestarted = true;
      }
      if (pause <= 0 && !signal?.aborted) {
        this.stats.calls++;
        this.#goesLate(key, performance.now() - (this.#due.get(decision) ?? Infinity));
        return decision;
      }
      // What was reserved is free for others. The line forms anew after the pause.
      await decision.cancel();
      signal?.throwIfAborted();
      if (performance.now() + pause > deadline) throw tooLong(key, pause, decision);
      await sleep(pause, signal);
    }
  }

  /** Notes what the store said. */
  see(decision: Decision): void {
    const { key, reason, retryAfterMs, allowed, degraded, delayMs } = decision;
    if (degraded) return;
    const known = this.#of(key);
    const now = performance.now();
    this.#due.set(decision, now + delayMs);
    if (reason === 'banned') {
      this.#pauseUntil(known, Math.max(known.until, now + retryAfterMs));
    } else if (allowed) {
      known.clear = now;
      // A question may have been on its way while this process began a pause. Later ones tell that it was ended by hand.
      if (known.learnt < now - COMPARE) known.until = 0;
      // Asking when the turn has come would make the call late.
      if (delayMs > STALE && decision.charged > 0)
        setTimeout(() => this.#lookAhead(key, known), delayMs - STALE / 2).unref();
    }
  }

  /**
   * Learns from what the partner answers.
   *
   * @returns how long the call has to wait before it is sent again, ms. Undefined: it was not turned away
   */
  learn(key: string, status: number, field: Field, decision: Decision): number | undefined {
    const { retryAfterMs, quotas } = readAnswer(field);
    const known = this.#of(key);
    const spent = quotas.filter(({ remaining, resetMs }) => remaining === 0 && resetMs !== undefined);
    const reset = Math.max(0, ...spent.map(({ resetMs }) => resetMs!));
    const isDenied =
      status === 429 ||
      (status === 503 && retryAfterMs !== undefined) ||
      (status === 403 && (retryAfterMs !== undefined || spent.length > 0));
    if (isDenied) {
      if (status === 429) this.stats.violations++;
      // Calls that were under way when a pause began tell nothing new.
      const isNew = known.until <= performance.now();
      if (status === 429 && isNew) void this.#widen(key);
      let pause = retryAfterMs || reset;
      if (pause === 0 && isNew) {
        // A wait of nothing is obeyed once. Who says it again does not say for how long.
        const isObeyed = retryAfterMs === 0 && known.silent === 0;
        if (!isObeyed) pause = 1000 * 2 ** Math.min(known.silent, 10);
        known.silent++;
      }
      return this.#pause(key, pause, status);
    }
    known.silent = 0;
    if (!this.#learn) return undefined;
    for (const quota of quotas) {
      const partner = this.#partnerOf(quota);
      if (partner) void this.#compare(key, partner, quota, decision);
      else if (quota.remaining === 0 && quota.resetMs) this.#pause(key, quota.resetMs, status);
    }
    return undefined;
  }

  /**
   * A call that goes out late is nearer to those a window later. So as many of their turns are given up, as far as the margin does not make
   * up for it.
   */
  #goesLate(key: string, ms: number): void {
    for (const { name, limit, windowMs, isPaced } of this.#partners) {
      const late = ms - LATE_PART * MARGIN * windowMs;
      if (!isPaced || !(late > 0)) continue;
      const turns = Math.min(MOST_GIVEN_UP, Math.ceil((late * limit) / windowMs));
      for (let i = 0; i < turns; i++) void this.#charge(key, name, 1).catch(() => {});
    }
  }

  /** Charges a single policy. */
  async #charge(key: string, name: string, units: number): Promise<void> {
    const none = Object.fromEntries(this.limiter.policies.map((each) => [each.name, 0]));
    await this.limiter.consume(key, { cost: { ...none, [name]: units } });
  }

  /** How long a call has to wait although the limiter admitted it, ms. */
  async #pauseOf(key: string, { delayMs, degraded }: Decision): Promise<number> {
    const known = this.#of(key);
    const now = performance.now();
    const isFresh = delayMs <= STALE || Math.max(known.clear, now - delayMs) > now - STALE;
    if (known.until <= now && !isFresh && !degraded && this.limiter.set.ban) {
      known.look ??= this.#look(key, known);
      await known.look;
    }
    return known.until - performance.now();
  }

  /** Asks before a turn comes, unless the store has just been asked. */
  #lookAhead(key: string, known: Known): void {
    if (this.limiter.set.ban && known.clear <= performance.now() - STALE / 2)
      known.look ??= this.#look(key, known);
  }

  /** Asks the store whether there is a pause. */
  async #look(key: string, known: Known): Promise<void> {
    try {
      this.see(await this.limiter.peek(key));
    } catch {
      // Without the store, nobody knows of a pause. What happens to calls then was decided by the limiter.
    } finally {
      known.look = undefined;
    }
  }

  /** Begins a pause, for all processes. Returns its length. A longer one is never cut short. */
  #pause(key: string, wanted: number, status: number): number {
    const ms = Math.max(1, Math.min(Math.ceil(wanted), this.#maxPause));
    const known = this.#of(key);
    const now = performance.now();
    known.learnt = now;
    const before = Math.max(0, known.until - now);
    const isLonger = ms > before;
    if (outboundChannel.hasSubscribers) {
      const pauseMs = isLonger ? ms - before : 0;
      outboundChannel.publish({ limiter: this.limiter.name, key, status, pauseMs } satisfies OutboundMessage);
    }
    if (!isLonger) return Math.ceil(before);
    this.#pauseUntil(known, now + ms);
    if (before === 0) this.stats.pauses++;
    try {
      warnOfRejected('onPause', this.#onPause?.({ key, ms, status }));
    } catch (error) {
      warnOfThrown('onPause', error);
    }
    if (this.limiter.set.ban) void this.#share(key, known.until, status);
    return ms;
  }

  #pauseUntil(known: Known, until: number): void {
    Object.assign(known, { until, next: until, gap: FIRST_GAP });
  }

  /**
   * After a pause, calls go out one by one, ever faster, lest all that wait go out at once. Spaced ones do so anyway.
   *
   * @returns how long this call has to wait for it, ms
   */
  #restart(key: string): number {
    const known = this.#of(key);
    const wait = known.next - performance.now();
    // Nobody has waited for a while.
    if (wait < -RESTART || known.gap < 1 || this.#partners.some(({ isPaced }) => isPaced)) return 0;
    // The pause was ended by hand.
    const after = wait > RESTART ? 0 : Math.max(0, wait);
    known.next = performance.now() + after + known.gap;
    known.gap *= GAP_SHRINKS;
    return after;
  }

  /** Tells the store of a pause. */
  async #share(key: string, until: number, status: number): Promise<void> {
    try {
      for (const after of [0, SETTLED]) {
        if (after > 0) await sleep(after, undefined);
        // A longer pause of this process has come in between, and is shared by itself.
        if (this.#of(key).until > until) return;
        const { reason, retryAfterMs = 0 } = await this.limiter.peek(key);
        const left = Math.ceil(until - performance.now());
        if (left <= 0) return;
        if (reason !== 'banned' || retryAfterMs + 5 < left)
          await this.limiter.ban(key, left, { by: BY, reason: `answered ${status}` });
      }
    } catch {
      // This process pauses all the same. Others learn of it by an answer of their own.
    }
  }

  /** Calls arrived closer together than they were admitted: widens the margin of spaced policies, for all processes. */
  async #widen(key: string): Promise<void> {
    const paced = this.#partners.filter(({ isPaced }) => isPaced);
    if (this.#margin === undefined || paced.length === 0) return;
    try {
      const last = await this.limiter.overrideOf(key);
      if (last && (last.by !== BY || Date.now() - last.since.getTime() < ONE_CAUSE)) return;
      const margin = Math.min(MOST_MARGIN, MARGIN_GROWS * (last ? marginOf(last.reason) : this.#margin));
      const change = paced.map(({ name, windowMs }) => [name, { window: spacedWindow(windowMs, margin) }]);
      await this.limiter.override(key, Object.fromEntries(change) as OverrideChange, {
        ...{ for: MARGIN_LASTS, by: BY, reason: `margin ${margin}` },
      });
    } catch {
      // The next answer of 429 tries it again. Until then, calls go out as before.
    }
  }

  #partnerOf({ limit, windowMs }: Quota): Partner | undefined {
    return this.#partners.find(
      (each) => each.limit === limit && (windowMs === undefined || each.windowMs === windowMs),
    );
  }

  /** If the partner has fewer units left than the store thinks, charges the difference in every process. */
  async #compare(
    key: string,
    { name, isPaced }: Partner,
    { remaining }: Quota,
    decision: Decision,
  ): Promise<void> {
    const known = this.#of(key);
    const now = performance.now();
    const ours = verdictOf(decision, name);
    // Calls under way are counted by us, and not yet by the partner. So ours has no reason to be more.
    if (isPaced || remaining === undefined || !ours || ours.remaining <= remaining) return;
    if (known.compared > now - COMPARE) return;
    known.compared = now;
    try {
      const left = verdictOf(await this.limiter.peek(key), name)?.remaining ?? 0;
      if (left <= remaining) return;
      await this.#charge(key, name, left - remaining);
    } catch {
      // The next answer tells it again.
    }
  }

  #of(key: string): Known {
    let known = this.#known.get(key);
    if (!known) {
      if (this.#known.size >= MOST_KEYS) this.#known.delete(this.#known.keys().next().value!);
      known = {
        until: 0,
        learnt: -Infinity,
        clear: -Infinity,
        silent: 0,
        look: undefined,
        compared: -Infinity,
        next: 0,
        gap: 0,
      };
      this.#known.set(key, known);
    }
    return known;
  }
}

/** The margin that an override of ours says. */
function marginOf(reason: string | undefined): number {
  return Number(/^margin (\S+)$/.exec(reason ?? '')?.[1] ?? MOST_MARGIN);
}

function verdictOf({ policies }: Decision, name: string): Decision['policies'][number] | undefined {
  return policies.find((each) => each.name === name);
}

function tooLong(key: string, pause: number, decision: Decision): HeadgateError {
  const message = `'${key}' pauses for ${Math.ceil(pause)} ms more, because the partner asked for it. Nothing was sent.`;
  const denial = ofLimiter(decision).deniedFor('banned', Math.ceil(pause));
  return new HeadgateError('HEADGATE_WAIT_TIMEOUT', message, { decision: denial });
}

/** Sleeps. @throws the signal's reason */
function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(
      () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      },
      Math.min(Math.ceil(Math.max(0, ms)), LONGEST_TIMER),
    );
    signal?.addEventListener('abort', stop, { once: true });
  });
}
