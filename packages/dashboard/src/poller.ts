import type { Parts } from './now-parts.js';

/** A change of the shown state: all parts at first, then the parts that differ. */
export interface Update {
  readonly full: boolean;
  readonly set: Parts;
  /** The names of parts that no longer exist. */
  readonly gone: readonly string[];
}

type Listener = (update: Update) => void;

/** Reads the state for all viewers of this process, and only while there is a viewer. */
export class Poller {
  readonly #read: () => Promise<Parts>;
  readonly #everyMs: number;
  readonly #viewers = new Set<Listener>();
  #parts: Parts = {};
  /** The JSON of each part, by which a change is recognized. */
  #texts = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;
  #isReading = false;
  /** Whether there was a change since the reading under way began. */
  #isOld = false;
  /** Resolve when all changes so far are sent. */
  #waiting: (() => void)[] = [];

  constructor(everyMs: number, read: () => Promise<Parts>) {
    this.#everyMs = everyMs;
    this.#read = read;
  }

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Sends all parts at once, if there are any, and the changes until the returned function is called. */
  watch(listener: Listener): () => void {
    this.#viewers.add(listener);
    if (this.#viewers.size === 1) this.#begin();
    else if (this.#texts.size > 0) listener({ full: true, set: this.#parts, gone: [] });
    return () => {
      this.#viewers.delete(listener);
      if (this.#viewers.size === 0) this.#end();
    };
  }

  /** Reads again now, for all viewers, after a change by one of them. @returns a promise of the time when the viewers have the change */
  refresh(): Promise<void> {
    if (this.#viewers.size === 0) return Promise.resolve();
    const sent = new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.#isReading) this.#isOld = true;
    else {
      clearTimeout(this.#timer);
      void this.#tick();
    }
    return sent;
  }

  #begin(): void {
    this.#texts = new Map();
    if (!this.#isReading) void this.#tick();
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#settle();
  }

  #settle(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async #tick(): Promise<void> {
    this.#isReading = true;
    this.#isOld = false;
    const parts = await this.#read().finally(() => (this.#isReading = false));
    if (this.#viewers.size === 0) return;
    this.#send(parts);
    if (!this.#isOld) this.#settle();
    this.#timer = setTimeout(() => void this.#tick(), this.#isOld ? 0 : this.#everyMs);
    this.#timer.unref();
  }

  #send(parts: Parts): void {
    const before = this.#texts;
    const texts = new Map(Object.entries(parts).map(([name, part]) => [name, JSON.stringify(part)]));
    const changed = Object.entries(parts).filter(([name]) => texts.get(name) !== before.get(name));
    const gone = [...before.keys()].filter((name) => !texts.has(name));
    this.#parts = parts;
    this.#texts = texts;
    const update = { full: before.size === 0, set: Object.fromEntries(changed), gone };
    for (const listener of this.#viewers) listener(update);
  }
}
