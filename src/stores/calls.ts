import { performance } from 'node:perf_hooks';
import { HeadgateError } from '../errors.js';
import type { Commands, Done } from './clients.js';
import { StoreTime } from './deadline.js';
import type { Script } from './scripts.js';
import type { Clock } from './store.js';

/** What a late call is refused with; it has changed nothing. */
const LATE = /^HEADGATE_LATE (\d+)/;

/** ms */
const TRY_AGAIN_AFTER = 5;

/** A script call. */
export interface Call {
  readonly script: Script;
  readonly keys: readonly string[];
  /** The script's arguments; the first, its deadline, is filled in when it is sent. */
  readonly args: string[];
  /** When its caller no longer waits, by `performance.now()`. */
  readonly until: number;
}

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

  /** @throws HeadgateError `HEADGATE_STORE_AWAY`, `HEADGATE_STORE_TIMEOUT`; else what the client rejects with */
  run(script: Script, keys: readonly string[], args: string[], until: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.send({ script, keys, args, until }, (error, reply) => {
        if (error === undefined) resolve(reply);
        else reject(error);
      });
    });
  }

  /** As `run`, without a promise: most calls are sent at once, and answered. */
  send(call: Call, done: Done): void {
    if (this.#commands.ready()) this.#attempt(call, done, false, 0);
    else this.#commands.connected().then(() => this.#attempt(call, done, false, 0), done);
  }

  /** @param refusals how often the server has found it late */
  #attempt(call: Call, done: Done, asText: boolean, refusals: number): void {
    const { script, keys, args, until } = call;
    const sent = performance.now();
    if (sent >= until) {
      done(late());
      return;
    }
    args[0] = this.#clock ? String(-stepBy(this.#clock)) : this.#time.at(until);
    const answered: Done = (error, reply) => {
      if (error !== undefined) {
        this.#refused(call, done, asText, refusals, sent, error);
        return;
      }
      const step: unknown = Array.isArray(reply) ? reply[0] : undefined;
      if (typeof step === 'number') this.#time.learn(step / 1000, sent, performance.now());
      done(undefined, reply);
    };
    try {
      if (asText) this.#commands.eval(script.source, keys, args, answered);
      else this.#commands.evalsha(script.sha, keys, args, answered);
    } catch (error) {
      done(error as Error);
    }
  }

  /** Sends a call again that the server has not run; ends it with any other error. */
  #refused(call: Call, done: Done, asText: boolean, refusals: number, sent: number, error: Error): void {
    const { message } = error;
    if (!asText && message.startsWith('NOSCRIPT')) {
      this.#attempt(call, done, true, refusals);
      return;
    }
    if (message.startsWith('TRYAGAIN')) {
      // A slot is being moved, and with it the keys of this call.
      setTimeout(() => this.#attempt(call, done, asText, refusals), TRY_AGAIN_AFTER);
      return;
    }
    const now = LATE.exec(message)?.[1];
    if (now === undefined) {
      done(error);
      return;
    }
    // The first call, or the store's clock was set forth: now its time is known.
    this.#time.learn(Number(now), sent, performance.now());
    if (refusals > 0) done(late());
    else this.#attempt(call, done, asText, refusals + 1);
  }
}

/** The latest steps by clocks for tests. */
const steps = new WeakMap<Clock, number>();

/** A step by a clock for tests: calls within one of its milliseconds are told apart by their order in this process. */
function stepBy(clock: Clock): number {
  const first = clock() * 1000;
  const last = steps.get(clock) ?? 0;
  const step = last >= first && last < first + 999 ? last + 1 : first;
  steps.set(clock, step);
  return step;
}

function late(): HeadgateError {
  return new HeadgateError(
    'HEADGATE_STORE_TIMEOUT',
    'The call reached the store too late, and changed nothing.',
  );
}
