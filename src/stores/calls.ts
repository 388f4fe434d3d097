import { HeadgateError } from '../errors.js';
import type { Commands } from './clients.js';
import { StoreTime } from './deadline.js';
import type { Script } from './scripts.js';
import type { Clock } from './store.js';

/** What a late call is refused with; it has changed nothing. */
const LATE = /^HEADGATE_LATE (\d+)/;

/** ms */
const TRY_AGAIN_AFTER = 5;

/**
 * Runs scripts such that each call takes effect at most once, and only while its caller waits for it. A call is sent again
 * only when the server said that it has not run it: it does not know the script, thinks that the call is late, or moves its slot.
 */
export class ScriptCalls {
  readonly #commands: Commands;
  readonly #clock: Clock | undefined;
  readonly #time = new StoreTime();

  /** @param clock decides instead of the server's, for tests: then calls have no deadline */
  constructor(commands: Commands, clock: Clock | undefined) {
    this.#commands = commands;
    this.#clock = clock;
  }

  /**
   * @param args the script's arguments; the first two, its time and its deadline, are filled in here
   * @param until when the caller no longer waits, by `performance.now()`
   * @throws HeadgateError `HEADGATE_STORE_AWAY`, `HEADGATE_STORE_TIMEOUT`; else what the client rejects with
   */
  async run(
    { source, sha }: Script,
    keys: readonly string[],
    args: string[],
    until: number,
  ): Promise<unknown> {
    if (!this.#commands.ready()) await this.#commands.connected();
    let text: string | undefined;
    for (let refusals = 0; ;) {
      const sent = performance.now();
      if (sent >= until) throw late();
      args[0] = this.#clock ? String(this.#clock()) : '';
      args[1] = this.#clock ? '0' : this.#time.at(until);
      try {
        const reply = await (text === undefined
          ? this.#commands.evalsha(sha, keys, args)
          : this.#commands.eval(text, keys, args));
        const now: unknown = Array.isArray(reply) ? reply[0] : undefined;
        if (typeof now === 'number') this.#time.learn(now, sent, performance.now());
        return reply;
      } catch (error) {
        const message = error instanceof Error ? error.message : '';
        if (text === undefined && message.startsWith('NOSCRIPT')) {
          text = source;
          continue;
        }
        if (message.startsWith('TRYAGAIN')) {
          // A slot is being moved, and with it the keys of this call.
          await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_AFTER));
          continue;
        }
        const now = LATE.exec(message)?.[1];
        if (now === undefined) throw error;
        // The first call, or the store's clock was set forth: now its time is known.
        this.#time.learn(Number(now), sent, performance.now());
        if (++refusals > 1) throw late();
      }
    }
  }
}

function late(): HeadgateError {
  return new HeadgateError(
    'HEADGATE_STORE_TIMEOUT',
    'The call reached the store too late, and changed nothing.',
  );
}
