import type { ResponsePort } from './framework.js';

/**
 * Reports the end of a response once: true if the response was sent completely, false if it was cut off. The end of a response that has
 * already ended is reported at once.
 */
export class ResponseEnd<Res> {
  readonly #port: ResponsePort<Res>;
  readonly #response: Res;
  readonly #tell: (completed: boolean) => void;
  #stopListening: (() => void) | undefined;
  #told = false;

  constructor(port: ResponsePort<Res>, response: Res, tell: (completed: boolean) => void) {
    this.#port = port;
    this.#response = response;
    this.#tell = tell;
    if (!this.look()) this.#stopListening = port.onEnd(response, (completed) => this.#end(completed));
  }

  /** Checks whether the response has ended, in case no event reported it. */
  look(): boolean {
    if (!this.#told && this.#port.hasEnded(this.#response)) this.#end(false);
    return this.#told;
  }

  stop(): void {
    this.#told = true;
    this.#stopListening?.();
  }

  #end(completed: boolean): void {
    if (this.#told) return;
    this.stop();
    this.#tell(completed);
  }
}
