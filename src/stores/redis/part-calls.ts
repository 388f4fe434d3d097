import type { Call, MaybePromise } from '../../contract/store.js';

/** The call of one part of a question. The caller waits for the whole question. */
class PartCall implements Call {
  readonly #whole: Call;
  readonly #chose: () => void;
  #server: string | undefined;

  constructor(whole: Call, chose: () => void) {
    this.#whole = whole;
    this.#chose = chose;
  }

  get until(): number {
    return this.#whole.until;
  }

  set until(until: number) {
    this.#whole.until = until;
  }

  get abandoned(): boolean {
    return this.#whole.abandoned;
  }

  get server(): string | undefined {
    return this.#server;
  }

  set server(server: string | undefined) {
    this.#server = server;
    this.#chose();
  }
}

/**
 * The calls of a question that is sent in parts to several servers. Stores the names of the servers that have answered, and sets `server`
 * of the whole call to the server for which the caller waits, or to the failed server.
 */
export class PartCalls {
  readonly #whole: Call | undefined;
  readonly #open = new Set<PartCall>();
  #hasFailed = false;

  constructor(whole: Call | undefined) {
    this.#whole = whole;
  }

  async ask<T>(send: (call: Call | undefined) => MaybePromise<T>): Promise<T> {
    const whole = this.#whole;
    if (!whole) return send(undefined);
    const call = new PartCall(whole, () => this.#waitFor(call.server));
    this.#open.add(call);
    try {
      const answer = await send(call);
      if (call.server !== undefined) (whole.answered ??= new Set()).add(call.server);
      this.#open.delete(call);
      const next = [...this.#open].at(-1);
      if (next) this.#waitFor(next.server);
      return answer;
    } catch (error) {
      this.#waitFor(call.server);
      this.#hasFailed = true;
      throw error;
    }
  }

  #waitFor(server: string | undefined): void {
    if (!this.#hasFailed) this.#whole!.server = server;
  }
}
