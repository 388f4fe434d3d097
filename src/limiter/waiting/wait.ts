import type { Decision } from '../../common/decision.js';
import type { LimiterDecision } from '../decision.js';
import type { Key } from '../../contract/key.js';
import { HeadgateError, show } from '../../common/errors.js';
import { Line, Lines } from './lines.js';
import type { Link } from '../../common/list.js';
import type { MaybePromise, PolicySet } from '../../contract/store.js';
import type { Timing } from '../../common/timing.js';
import { joined } from '../../contract/parts.js';

/** What waiting needs of its limiter. */
export interface Host {
  decide(key: Key, cost: number, set: PolicySet): MaybePromise<LimiterDecision>;
  /** Holds an admitted request until its turn. */
  hold(decision: LimiterDecision, signal: AbortSignal | undefined): Promise<LimiterDecision>;
}

/** Who waits. */
export interface Who {
  readonly key: Key;
  /** The policies that decide. */
  readonly set: PolicySet;
  /** Texts that distinguish the keys: see `idsOf`. */
  readonly ids: readonly string[];
}

interface Waiter {
  readonly who: Who;
  readonly cost: number;
  /** When the waiter gives up, by the room's clock. */
  readonly deadline: number;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (decision: Decision | Promise<Decision>) => void;
  readonly reject: (error: unknown) => void;
  /** Stops the waiter's timer, and stops listening to its signal. */
  leave: () => void;
  /** Why the waiter gave up while the store was being asked for it. A charge must be given back before the wait ends with this error. */
  error: unknown;
}

const FIRST_POLL = 10;
const LAST_POLL = 1000;

/** The waiters of one key, or of the same keys of several dimensions, in order of arrival. The store is only asked for the first one. */
class WaitingLine extends Line<Waiter> {
  ids: readonly string[] = [this.key];
  asking = false;
  /** Whether something was given back while the store was being asked. The store is then asked again at once. */
  again = false;
  denial: LimiterDecision | undefined;
  /** How long to sleep next if it cannot be predicted when to ask again, ms. */
  poll = FIRST_POLL;
  stopTimer = (): void => {};
}

/** Where requests wait until they are admitted: in order of arrival, by key, with one store call at a time per key. */
export class WaitingRoom {
  readonly #timing: Timing;
  readonly #host: Host;
  readonly #lines: Lines<Waiter, WaitingLine>;
  /** Lines that wait for several keys, under each of these keys. */
  readonly #byPart = new Map<string, Set<WaitingLine>>();

  /**
   * @param most how many requests wait at a time
   * @param mostPerKey how many of one key
   */
  constructor(most: number, mostPerKey: number, timing: Timing, host: Host) {
    this.#timing = timing;
    this.#host = host;
    this.#lines = new Lines(most, mostPerKey, (key) => new WaitingLine(key));
  }

  /** How many requests wait now. */
  get size(): number {
    return this.#lines.size;
  }

  /**
   * @param timeout ms, or Infinity
   * @throws HeadgateError `HEADGATE_QUEUE_FULL`, `HEADGATE_WAIT_TIMEOUT`, `HEADGATE_ABORTED`, `HEADGATE_DENIED`, the error that `close`
   * gets, or what the store fails with; in every case nothing stays charged
   */
  wait(who: Who, cost: number, timeout: number, signal: AbortSignal | undefined): Promise<Decision> {
    if (signal?.aborted) return Promise.reject(aborted(signal));
    const line = this.#lines.open(joined(who.ids), (longest) =>
      this.#end(longest, longest.last!, fullError(longest.last!.value.who.key)),
    );
    if (!line) return Promise.reject(fullError(who.key));
    if (line.size === 0) this.#enter(line, who.ids);
    return this.#join(line, who, cost, timeout, signal);
  }

  #enter(line: WaitingLine, ids: readonly string[]): void {
    line.ids = ids;
    if (ids.length === 1) return;
    for (const id of ids) {
      const lines = this.#byPart.get(id) ?? new Set();
      this.#byPart.set(id, lines.add(line));
    }
  }

  #leave(line: WaitingLine): void {
    for (const id of line.ids) {
      const lines = this.#byPart.get(id);
      if (lines?.delete(line) && lines.size === 0) this.#byPart.delete(id);
    }
  }

  #join(
    line: WaitingLine,
    who: Who,
    cost: number,
    timeout: number,
    signal: AbortSignal | undefined,
  ): Promise<Decision> {
    return new Promise((resolve, reject) => {
      const deadline = this.#timing.now() + timeout;
      const waiter: Waiter = {
        who,
        cost,
        deadline,
        signal,
        resolve,
        reject,
        leave: () => {},
        error: undefined,
      };
      const onAbort = (): void => this.#giveUp(line, link, aborted(signal));
      let stopTimer = (): void => {};
      const watch = (): void => {
        const left = deadline - this.#timing.now();
        if (left > 0) stopTimer = this.#timing.after(left, watch);
        else this.#giveUp(line, link, late(who.key, line.denial));
      };
      waiter.leave = () => {
        stopTimer();
        signal?.removeEventListener('abort', onAbort);
      };
      const link = this.#lines.add(line, waiter, line.last);
      if (timeout !== Infinity) watch();
      signal?.addEventListener('abort', onAbort, { once: true });
      if (line.first === link) void this.#ask(line);
    });
  }

  /**
   * Something was given back to keys, so the first waiter of each key may be admitted now. Of the lines that wait for several keys, one is
   * asked for. If that ends a wait, the next line follows.
   */
  wake(ids: readonly string[]): void {
    for (const id of ids) {
      const line = this.#lines.get(id);
      if (line) this.#wake(line);
      const lines = this.#byPart.get(id);
      const [next] = lines ?? [];
      if (!lines || !next) continue;
      lines.delete(next);
      lines.add(next);
      this.#wake(next);
    }
  }

  #wake(line: WaitingLine): void {
    line.again = true;
    void this.#ask(line);
  }

  /** Ends every wait with an error. */
  close(error: HeadgateError): void {
    for (const line of this.#lines) {
      line.stopTimer();
      // From the end, because the wait of the first one may have to go on until the store answers.
      for (let link = line.last; link; link = link.before) this.#end(line, link, error);
    }
  }

  #giveUp(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    const first = line.first === link;
    this.#end(line, link, error);
    if (first) void this.#ask(line);
  }

  /** Ends a wait. If the store is being asked for it, the wait ends with the store's answer. */
  #end(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    const waiter = link.value;
    if (line.asking && line.first === link) {
      waiter.error ??= error;
      return;
    }
    this.#remove(line, link);
    waiter.reject(error);
  }

  #remove(line: WaitingLine, link: Link<Waiter>): void {
    this.#lines.delete(line, link);
    if (line.size === 0) this.#leave(line);
    line.poll = FIRST_POLL;
    link.value.leave();
  }

  /** Asks the store for the first waiter, and again for the next one as long as waits end. Never rejects. */
  async #ask(line: WaitingLine): Promise<void> {
    if (line.asking) return;
    line.asking = true;
    line.stopTimer();
    for (let link = line.first; link; link = line.first) {
      const waiter = link.value;
      line.again = false;
      try {
        const { key, set } = waiter.who;
        const decision = await this.#host.decide(key, waiter.cost, set);
        const sleep = await this.#answer(line, link, decision);
        if (sleep > 0 && !line.again && waiter.error === undefined) {
          line.stopTimer = this.#timing.after(sleep, () => void this.#ask(line));
          break;
        }
      } catch (error) {
        this.#remove(line, link);
        waiter.reject(waiter.error ?? error);
      }
    }
    line.asking = false;
  }

  /** Applies a decision to the first waiter. Returns how long to sleep if it stays first; otherwise 0. */
  async #answer(line: WaitingLine, link: Link<Waiter>, decision: LimiterDecision): Promise<number> {
    const waiter = link.value;
    if (!decision.allowed) line.denial = decision;
    const now = this.#timing.now();
    if (decision.allowed && now + decision.delayMs > waiter.deadline)
      waiter.error ??= late(waiter.who.key, decision);
    if (waiter.error !== undefined) await decision.cancel();
    if (waiter.error === undefined && !decision.allowed) {
      const { known, sleep } = delays(decision, line.poll);
      if (known === undefined) waiter.error = deniedError(decision);
      else if (now + known >= waiter.deadline) waiter.error = late(waiter.who.key, decision);
      else {
        line.poll = Math.min(2 * line.poll, LAST_POLL);
        return sleep;
      }
    }
    this.#remove(line, link);
    if (waiter.error !== undefined) waiter.reject(waiter.error);
    else waiter.resolve(this.#host.hold(decision, waiter.signal));
    if (line.ids.length > 1) this.wake(line.ids);
    return 0;
  }
}

/**
 * How long a denial lasts at least (`known`), and how long to sleep before asking again. The release of a concurrency slot, the recovery of
 * a store, or new room in it cannot be predicted. For these the sleeps grow. `known` is undefined for a cost above a capacity.
 */
function delays(decision: LimiterDecision, poll: number): { known: number | undefined; sleep: number } {
  const { reason } = decision;
  if (decision.retryAfterMs === undefined) return { known: undefined, sleep: 0 };
  if (reason === 'store-error' || reason === 'store-full' || reason === 'process-late')
    return { known: 0, sleep: poll };
  const { policies } = decision.set;
  let known = 0;
  let slots = false;
  decision.policies.forEach(({ allowed, retryAfterMs = 0 }, i) => {
    const { traits, shadow } = policies[i]!;
    if (allowed || shadow) return;
    if (traits.holdsSlots) slots = true;
    else known = Math.max(known, retryAfterMs);
  });
  if (reason === 'banned') known = decision.retryAfterMs;
  return { known, sleep: Math.max(known, slots ? Math.min(poll, decision.retryAfterMs) : 0, 1) };
}

function late(key: Key, decision: Decision | undefined): HeadgateError {
  const wait = decision?.retryAfterMs ? ` It could be in ${decision.retryAfterMs} ms at the earliest.` : '';
  return new HeadgateError(
    'HEADGATE_WAIT_TIMEOUT',
    `${show(key)} was not admitted in time.${wait}`,
    decision && { decision },
  );
}

/** @internal The error for a denial that the caller gets no decision for. */
export function deniedError(decision: Decision): HeadgateError {
  const { key, reason, retryAfterMs } = decision;
  const again = retryAfterMs === undefined ? '' : ` It may be admitted in ${retryAfterMs} ms.`;
  return new HeadgateError('HEADGATE_DENIED', `${show(key)} is denied: ${reason}.${again}`, { decision });
}

/** @internal The error for a caller that gave up. */
export function aborted(signal: AbortSignal | undefined): HeadgateError {
  return new HeadgateError('HEADGATE_ABORTED', 'The wait was aborted.', { cause: signal?.reason });
}

/** @internal The error for a caller that finds no place. */
export function fullError(key: Key): HeadgateError {
  return new HeadgateError(
    'HEADGATE_QUEUE_FULL',
    `${show(key)} cannot wait: too many requests are waiting already (maxWaiting, maxWaitingPerKey).`,
  );
}
