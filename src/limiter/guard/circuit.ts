import type { HeadgateError } from '../../common/errors.js';
import { Backlog } from './backlog.js';
import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import type { Subject } from '../../contract/store.js';

/** Probes a store by a call of its own. */
export interface Prober {
  /**
   * Sends one probe. Resolves once all its calls have ended, with false if the server does not belong to the store.
   *
   * @param server see `Store.serverOf`; undefined for any server
   * @param failed the subject that failed on the server, or undefined if none has
   */
  probe(server: string | undefined, failed: Subject | undefined): Promise<boolean>;
  /** Resolves when the store's client connects the next time. Undefined if the store has no such event. */
  whenReady(): Promise<void> | undefined;
}

/** The failures in a row, and the least time that they span (ms), until a server is down. Each alone is not a proof. */
const MIN_FAILURES = 5;
const MIN_FAILING_MS = 100;

/**
 * The pause before the next probe, ms: this fraction of the server's down time, within limits. A random factor of 1 to 2 keeps processes from
 * probing all at once.
 */
const PAUSE_FRACTION = 0.1;
const MIN_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2000;

/** A server that answered too late within this time, ms, is slow and not down. It exceeds the pause between two probes. */
const SLOW_MS = 5000;

/**
 * The circuits that wait for a client, by the promise of its connection. A connection may last as long as the process, so the promise's
 * callback must not keep each circuit that was down meanwhile.
 */
const waiting = new WeakMap<Promise<void>, Map<Circuit, () => void>>();

function waitFor(ready: Promise<void>): Map<Circuit, () => void> {
  const known = waiting.get(ready);
  if (known) return known;
  const circuits = new Map<Circuit, () => void>();
  waiting.set(ready, circuits);
  void ready.then(() => {
    waiting.delete(ready);
    for (const isReady of circuits.values()) isReady();
  });
  return circuits;
}

/** Learns from calls whether a server is up. */
export class Circuit {
  readonly server: string | undefined;
  readonly #onChange: () => void;
  readonly #startTimer: typeof setTimeout;
  #down = false;
  #since = Date.now();
  #failures = 0;
  #failingSince = 0;
  #lastError: HeadgateError | undefined;
  /** The subject of the last failure. A probe must succeed with it. */
  #failed: Subject | undefined;
  #answeredLate = -Infinity;
  /** The limiters that need the server while it is down, and can probe it. */
  readonly #probers = new Set<Prober>();
  #timer: NodeJS.Timeout | undefined;
  #probing = false;
  /** Whether to probe again as soon as the current probe ends. */
  #again = false;
  /** The promise of the client's connection, for which this circuit waits or has waited. */
  #ready: Promise<void> | undefined;
  /** The refunds to make once the server is up. */
  readonly backlog = new Backlog(() => !this.#down);

  /**
   * @param onChange called when the server goes down, and when it is up again
   * @param startTimer for tests
   */
  constructor(server: string | undefined, onChange: () => void, startTimer = setTimeout) {
    this.server = server;
    this.#onChange = onChange;
    this.#startTimer = startTimer;
  }

  get down(): boolean {
    return this.#down;
  }

  /** The time at which the server went down, ms since the epoch. */
  get since(): number {
    return this.#since;
  }

  get failures(): number {
    return this.#failures;
  }

  get lastError(): HeadgateError | undefined {
    return this.#lastError;
  }

  get slow(): boolean {
    return this.#failures > 0 && performance.now() - this.#answeredLate < SLOW_MS;
  }

  success(): void {
    this.#failures = 0;
    this.#lastError = undefined;
    if (this.#down) this.#setDown(false);
  }

  failure(error: HeadgateError, failed: Subject, prober: Prober): void {
    this.#lastError = error;
    this.#failed = failed;
    if (this.#failures++ === 0) this.#failingSince = performance.now();
    if (this.#failures >= MIN_FAILURES && performance.now() - this.#failingSince >= MIN_FAILING_MS)
      this.giveUp(prober);
  }

  /** Declares a failing server down. */
  giveUp(prober: Prober): void {
    if (this.#down || this.#failures === 0) return;
    this.#setDown(true);
    this.watch(prober);
    this.#probeWhenReady(prober);
  }

  /**
   * Records an answer that came after the caller stopped waiting. A server that had stalled may be back.
   *
   * @param wasProbe whether the call was a probe. The next probe then follows after the pause that began with this one
   */
  answeredLate(wasProbe = false): void {
    this.#answeredLate = performance.now();
    if (this.#down && !wasProbe) void this.#probe();
  }

  /** Records that a limiter needs the server while it is down. */
  watch(prober: Prober): void {
    this.#probers.add(prober);
    if (!this.#timer && !this.#probing) this.#schedule();
  }

  /** Forgets a limiter that was closed. */
  unwatch(prober: Prober): void {
    this.#probers.delete(prober);
    if (this.#probers.size === 0) this.#stop();
  }

  /** @param passed the part of the pause that is over, ms */
  #schedule(passed = 0): void {
    const pause = Math.min(Math.max(MIN_PAUSE_MS, PAUSE_FRACTION * (Date.now() - this.#since)), MAX_PAUSE_MS);
    const left = Math.max(0, pause * (1 + Math.random()) - passed);
    this.#timer = this.#startTimer(() => void this.#probe(), left).unref();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #probe(): Promise<void> {
    this.#stop();
    const [prober] = this.#probers;
    this.#again = this.#probing;
    if (this.#probing || !prober) return;
    this.#probing = true;
    const began = performance.now();
    const isThere = await prober.probe(this.server, this.#failed);
    this.#probing = false;
    if (!isThere) this.success();
    // There are no probers if the server is up, or if no limiter needs it.
    if (this.#probers.size === 0) return;
    if (this.#again) void this.#probe();
    else this.#schedule(performance.now() - began);
  }

  #probeWhenReady(prober: Prober): void {
    if (!this.#ready || !waiting.has(this.#ready)) this.#ready = prober.whenReady();
    if (this.#ready) waitFor(this.#ready).set(this, () => this.#isReady(prober));
  }

  #isReady(prober: Prober): void {
    void this.#probe();
    this.#probeWhenReady(prober);
  }

  #setDown(down: boolean): void {
    this.#down = down;
    this.#since = Date.now();
    if (!down) {
      this.#stop();
      this.#probers.clear();
      if (this.#ready) waiting.get(this.#ready)?.delete(this);
      this.backlog.drain();
    }
    this.#onChange();
  }
}
