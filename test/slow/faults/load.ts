import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createLimiter, HeadgateError, type Limiter, type Store } from 'headgate';

export const MODES = ['local', 'allow', 'deny', 'throw'] as const;
export type Mode = (typeof MODES)[number];

/** The limit under load: the hot key reaches its limit, and every other key is requested once. */
export const LIMIT = 40;
export const LOCAL_SHARE = 0.5;
export const TIMEOUT = 100;

const EVERY_MS = 5;

export interface Answer {
  readonly key: string;
  /** The time of the request, by `performance.now()`, and the time until its answer. */
  readonly at: number;
  readonly ms: number;
  /** The part of the time in which this process was busy with other work, ms. */
  readonly lag: number;
  readonly allowed: boolean;
  readonly degraded: boolean;
  /** The code, if the answer was an error. */
  readonly code: string | undefined;
}

/** A limiter of one mode with a request every few milliseconds, whatever the answers are. */
export class Load {
  readonly mode: Mode;
  readonly limiter: Limiter;
  readonly answers: Answer[] = [];
  readonly #pending = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #asked = 0;
  /** The total delay of the event loop's turns, ms, and the time of the last check. */
  #late = 0;
  #looked = 0;

  constructor(mode: Mode, store: Store, onHealth?: () => void) {
    this.mode = mode;
    this.limiter = createLimiter({
      name: mode,
      store,
      algorithm: 'fixed-window',
      limit: LIMIT,
      window: '10m',
      timeout: TIMEOUT,
      onStoreError: mode,
      localShare: LOCAL_SHARE,
      ...(onHealth && { onHealth }),
    });
  }

  start(): void {
    this.#looked = performance.now();
    this.#timer = setInterval(() => {
      this.#late = this.#lag();
      this.#looked = performance.now();
      this.#ask('hot');
      this.#ask(`once-${this.#asked++}`);
    }, EVERY_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#pending);
    await this.limiter.close();
  }

  get degraded(): Answer[] {
    return this.answers.filter(({ degraded }) => degraded);
  }

  /** Whether the store decided all of the last answers. */
  isBack(): boolean {
    return this.answers.length > 20 && this.answers.slice(-10).every(({ degraded }) => !degraded);
  }

  /** The total delay of the event loop's turns since the start, ms. */
  get lag(): number {
    return this.#late;
  }

  /** The state of the load, as text. */
  told(): string {
    const last = this.answers.slice(-100);
    const degraded = last.filter((answer) => answer.degraded);
    const { state, serversDown, late, lastError } = this.limiter.health;
    return (
      `${this.mode}: ${degraded.length} of the last ${last.length} degraded in ${Math.round(this.#late)} ms of lag, ` +
      `${state}, ${late} late, down: ${serversDown.join()}, ${lastError?.message}, ${degraded.at(-1)?.code}`
    );
  }

  #lag(): number {
    return this.#late + Math.max(0, performance.now() - this.#looked - EVERY_MS);
  }

  #ask(key: string): void {
    const at = performance.now();
    const lagBefore = this.#lag();
    const note = (allowed: boolean, degraded: boolean, code?: string): void => {
      const lag = this.#lag() - lagBefore;
      this.answers.push({ key, at, ms: performance.now() - at, lag, allowed, degraded, code });
    };
    const asked = this.limiter.consume(key).then(
      ({ allowed, degraded }) => note(allowed, degraded),
      (error: unknown) => note(false, true, error instanceof HeadgateError ? error.code : String(error)),
    );
    this.#pending.add(asked);
    void asked.then(() => this.#pending.delete(asked));
  }
}

/** The delay of this process, ms, which a slow machine adds to every answer. */
export function eventLoopDelay(): { stop(): number } {
  const histogram = monitorEventLoopDelay({ resolution: 5 });
  histogram.enable();
  return {
    stop() {
      histogram.disable();
      return histogram.max / 1e6;
    },
  };
}

export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((p / 100) * sorted.length))] ?? 0;
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Resolves with the time until the condition held, ms. */
export async function until(condition: () => boolean | Promise<boolean>, within = 10_000): Promise<number> {
  const start = performance.now();
  while (!(await condition())) {
    if (performance.now() - start > within)
      throw new Error(`The condition did not hold within ${within} ms.`);
    await sleep(2);
  }
  return performance.now() - start;
}
