import type { HeadgateError } from '../../common/errors.js';
import { Backlog } from './backlog.js';
import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import type { Subject } from '../../contract/store.js';

/** Finds out whether a store is up by a call of its own. */
export interface Prober {
  /**
   * Sends one probe. Resolves when no call is under way any more; with false if the server does not belong to the store.
   *
   * @param server see `Store.serverOf`; undefined: any server
   * @param failed what the server has failed to do; undefined: nothing yet
   */
  probe(server: string | undefined, failed: Subject | undefined): Promise<boolean>;
  /** Resolves the next time the store's client is connected. Undefined: the store does not tell. */
  whenReady(): Promise<void> | undefined;
}

/** A server is down after this many failures in a row over at least this time, ms. Both are needed, because each alone proves nothing. */
const FAILURES = 5;
const FAILING_FOR = 100;

/**
 * The pause before the next probe, ms: this part of the time that the server has been down, within limits. A random factor of 1 to 2 keeps
 * processes from probing all at once.
 */
const PART = 0.1;
const SOONEST = 100;
const LATEST = 2000;

/** A server that answered too late within this time, ms, is slow and not gone. It is longer than the pause between two probes. */
const SLOW_FOR = 5000;

/**
 * The circuits that wait for a client, by what tells that it is ready. A connection may last for as long as the process: what it would
 * call must not keep each circuit that was down meanwhile.
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
  /** What failed last. A probe must prove that this works again. */
  #failed: Subject | undefined;
  #answeredLate = -Infinity;
  /** The limiters that need the server while it is down. They can probe it. */
  readonly #probers = new Set<Prober>();
  #timer: NodeJS.Timeout | undefined;
  #probing = false;
  /** Whether to probe again as soon as the current probe ends. */
  #again = false;
  /** What tells that the client is ready, if this circuit waits for it or did when it was down. */
  #ready: Promise<void> | undefined;
  /** What will be given back once the server is up. */
  readonly backlog = new Backlog(() => !this.#down);

  /**
   * @param onChange is called when the server is found down, and when it is up again
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

  /** When the server was found down, ms since the epoch. */
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
    return this.#failures > 0 && performance.now() - this.#answeredLate < SLOW_FOR;
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
    if (this.#failures >= FAILURES && performance.now() - this.#failingSince >= FAILING_FOR)
      this.giveUp(prober);
  }

  /** A server that fails is down from now on. */
  giveUp(prober: Prober): void {
    if (this.#down || this.#failures === 0) return;
    this.#setDown(true);
    this.watch(prober);
    this.#probeWhenReady(prober);
  }

  /**
   * The server has answered a call after the caller stopped waiting. If it had stalled, it may be back.
   *
   * @param wasProbe whether the call was a probe: the next one follows after its pause, which began with this one
   */
  answeredLate(wasProbe = false): void {
    this.#answeredLate = performance.now();
    if (this.#down && !wasProbe) void this.#probe();
  }

  /** A limiter needs a server that is down. */
  watch(prober: Prober): void {
    this.#probers.add(prober);
    if (!this.#timer && !this.#probing) this.#schedule();
  }

  /** A limiter was closed. */
  unwatch(prober: Prober): void {
    this.#probers.delete(prober);
    if (this.#probers.size === 0) this.#stop();
  }

  /** @param passed of the pause, ms */
  #schedule(passed = 0): void {
    const pause = Math.min(Math.max(SOONEST, PART * (Date.now() - this.#since)), LATEST);
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
    // There are none if the server is up, or if no limiter needs it.
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
