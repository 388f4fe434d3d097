import { HeadgateError, withoutPage } from '../../common/errors.js';
import { clearTimeout, performance, setTimeout, TIMERS_OUTLIVE_REQUESTS } from '../../common/real-time.js';
import type { Subject } from '../../contract/store.js';
import { Backlog } from './backlog.js';
import {
  MAX_LOCAL_BANS,
  MAX_PROBE_PAUSE_MS,
  MIN_FAILING_MS,
  MIN_FAILURES,
  MIN_PROBE_PAUSE_MS,
  PROBE_PAUSE_FRACTION,
  SLOW_MS,
} from './guard-options.js';

/** Probes a store by a call of its own. */
export interface Prober {
  /**
   * Sends a probe. Resolves once the calls of the probe have ended, with false if the server does not belong to the store.
   *
   * @param server see `Store.serverOf`; undefined for any server
   * @param failed the subject of the server's last failure, or undefined without a failure
   */
  probe(server: string | undefined, failed: Subject | undefined): Promise<boolean>;
  /** Resolves when the store's client connects the next time. Undefined if the store has no such event. */
  whenReady(): Promise<void> | undefined;
}

/**
 * The circuits that wait for a client, by the promise of the client's connection. A connection may last as long as the process, so the
 * promise's callback must not keep circuits alive that are up again.
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

export class Circuit {
  readonly server: string | undefined;
  down = false;
  /** The time at which the server went down, ms since the epoch. */
  since = Date.now();
  /** The failures since the last answer in time. */
  failures = 0;
  lastError: HeadgateError | undefined;
  /** The refunds to make once the server is up. */
  readonly backlog = new Backlog(() => !this.down);
  readonly #afterwards = new Set<() => void>();
  readonly #onChange: () => void;
  readonly #startTimer: typeof setTimeout;
  #failingSince = 0;
  /** The subject of the last failure. A probe must succeed with the same subject. */
  #failed: Subject | undefined;
  #answeredLate = -Infinity;
  /** The limiters that need the server while it is down, and can send probes. */
  readonly #probers = new Set<Prober>();
  #timer: NodeJS.Timeout | undefined;
  #probing = false;
  /** The time from which a question is sent as a probe, because the timer of the next probe has ended with its request. */
  #overdueAt = Infinity;
  /** Whether to probe again as soon as the current probe ends. */
  #again = false;
  /** The promise of the client's connection, awaited now or before. */
  #ready: Promise<void> | undefined;

  /**
   * @param onChange called when the server goes down, and when it is up again
   * @param startTimer for tests
   */
  constructor(server: string | undefined, onChange: () => void, startTimer = setTimeout) {
    this.server = server;
    this.#onChange = onChange;
    this.#startTimer = startTimer;
  }

  get slow(): boolean {
    return this.failures > 0 && performance.now() - this.#answeredLate < SLOW_MS;
  }

  /** The error of a question that is not sent while the server is down. */
  error(): HeadgateError {
    const { server, since, lastError: cause } = this;
    const store = server === undefined ? 'The store' : `The store's server ${server}`;
    const message = `${store} is down since ${new Date(since).toISOString()}: ${withoutPage(String(cause?.message))}`;
    return new HeadgateError('HEADGATE_STORE_AWAY', message, { cause });
  }

  /** Whether a question is sent although the server is down. */
  takesQuestion(): boolean {
    const now = performance.now();
    if (now < this.#overdueAt) return false;
    this.#overdueAt = now + MAX_PROBE_PAUSE_MS;
    return true;
  }

  success(): void {
    this.failures = 0;
    this.lastError = undefined;
    if (this.down) this.#setDown(false);
    for (const end of this.#afterwards) end();
    this.#afterwards.clear();
  }

  /** Calls a function at the next answer in time. Of too many functions, the earliest are called now. */
  afterwards(end: () => void): void {
    for (const earliest of this.#afterwards) {
      if (this.#afterwards.size < MAX_LOCAL_BANS) break;
      this.#afterwards.delete(earliest);
      earliest();
    }
    this.#afterwards.add(end);
  }

  failure(error: HeadgateError, failed: Subject, prober: Prober): void {
    this.lastError = error;
    this.#failed = failed;
    if (this.failures++ === 0) this.#failingSince = performance.now();
    if (this.failures >= MIN_FAILURES && performance.now() - this.#failingSince >= MIN_FAILING_MS)
      this.giveUp(prober);
  }

  giveUp(prober: Prober): void {
    if (this.down || this.failures === 0) return;
    this.#setDown(true);
    this.watch(prober);
    this.#probeWhenReady(prober);
  }

  /**
   * Records an answer after the time limit. A stalled server may be back.
   *
   * @param wasProbe whether the answer is of a probe. The next probe then follows after the pause that began with the late probe
   */
  answeredLate(wasProbe = false): void {
    this.#answeredLate = performance.now();
    if (this.down && !wasProbe) void this.#probe();
  }

  /** Records a limiter's need for the server while the server is down. */
  watch(prober: Prober): void {
    this.#probers.add(prober);
    if (!this.#timer && !this.#probing) this.#schedule();
  }

  unwatch(prober: Prober): void {
    this.#probers.delete(prober);
    if (this.#probers.size === 0) this.#stop();
  }

  /** @param passed the time since the pause began, ms */
  #schedule(passed = 0): void {
    const part = PROBE_PAUSE_FRACTION * (Date.now() - this.since);
    const pause = Math.min(Math.max(MIN_PROBE_PAUSE_MS, part), MAX_PROBE_PAUSE_MS);
    const left = Math.max(0, pause * (1 + Math.random()) - passed);
    if (!TIMERS_OUTLIVE_REQUESTS) this.#overdueAt = performance.now() + left;
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
    // There are no probers if the server is up, or if no limiter needs the server.
    if (this.#probers.size === 0) return;
    if (this.#again) void this.#probe();
    else this.#schedule(performance.now() - began);
  }

  #probeWhenReady(prober: Prober): void {
    if (!this.#ready || !waiting.has(this.#ready)) this.#ready = prober.whenReady();
    if (!this.#ready) return;
    waitFor(this.#ready).set(this, () => {
      void this.#probe();
      this.#probeWhenReady(prober);
    });
  }

  #setDown(down: boolean): void {
    this.down = down;
    this.since = Date.now();
    if (!down) {
      this.#stop();
      this.#probers.clear();
      if (this.#ready) waiting.get(this.#ready)?.delete(this);
      this.backlog.drain();
    }
    this.#onChange();
  }
}
