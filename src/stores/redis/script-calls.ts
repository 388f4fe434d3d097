import { HeadgateError } from '../../common/errors.js';
import type { Commands, Done } from './clients/commands.js';
import { OVER, StoreTime } from './deadline.js';
import { performance, setTimeout } from '../../common/real-time.js';
import type { Script } from './scripts.js';
import { explainUnknownCommand, isUnknownCommand } from './server-version.js';
import { stepAfter } from '../../contract/charged.js';
import type { Clock, Subject } from '../../contract/store.js';

/** The error with which the server refuses a late call. Such a call has changed nothing. */
const LATE = /^HEADGATE_LATE (\d+)/;

/** How long to wait before sending a call again whose slot is being moved, ms. */
const TRY_AGAIN_AFTER = 5;

/** One call of a script. */
export interface Call {
  readonly script: Script;
  readonly keys: readonly string[];
  /** The script's arguments. The first one, the deadline, is set when the call is written. */
  readonly args: string[];
  /** How long the caller waits for the answer, ms, counted from when the call is written. */
  readonly timeout: number;
  /** The questions in the call. Once all of them are abandoned, the call is not sent again. */
  readonly asked: readonly Subject[];
}

/** A call under way. */
interface Sending extends Call {
  readonly done: Done;
  /** When the call was last written, by `performance.now()`. */
  sent: number;
  /** Until when the callers wait, by `performance.now()`. 0: not written yet. */
  until: number;
  /** How often the server did not know the script. */
  misses: number;
  /** How often the server refused the call as late although its time was known. */
  refusals: number;
}

/**
 * Runs scripts. Each call takes effect at most once, and only while its caller waits. A call is sent again only if the server has certainly
 * not run it: the server does not know the script, refused the call as late, or is moving its slot.
 */
export class ScriptCalls {
  readonly #commands: Commands;
  readonly #clock: Clock | undefined;
  readonly #time = new StoreTime();
  /** By a script's hash: `true` if the server knows the script. While a first call brings the script: the calls that wait for it. */
  readonly #scripts = new Map<string, true | Sending[]>();

  /** @param clock replaces the server's clock, for tests; calls then have no deadline */
  constructor(commands: Commands, clock: Clock | undefined) {
    this.#commands = commands;
    this.#clock = clock;
  }

  /** @throws HeadgateError `HEADGATE_STORE_AWAY`, `HEADGATE_PROCESS_LATE`; otherwise what the client rejects with */
  run(call: Call): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.send(call, (error, reply) => {
        if (error === undefined) resolve(reply);
        else reject(error);
      });
    });
  }

  /** Like `run`, without a promise. Most calls can be sent at once. */
  send({ script, keys, args, timeout, asked }: Call, done: Done): void {
    // A batch that is sent in parts, or again, keeps its time.
    const until = asked[0]!.call?.until ?? 0;
    const sending: Sending = {
      script,
      keys,
      args,
      timeout,
      asked,
      done,
      sent: 0,
      until,
      misses: 0,
      refusals: 0,
    };
    if (this.#commands.ready()) this.#attempt(sending);
    else this.#whenConnected(sending);
  }

  #whenConnected(sending: Sending): void {
    this.#commands.connected().then(() => this.#attempt(sending), sending.done);
  }

  #attempt(sending: Sending): void {
    const { script, misses } = sending;
    const state = this.#scripts.get(script.sha);
    // Each server of a cluster needs the script, so calls to a cluster do not wait for each other.
    const isMissing = misses > (this.#commands.cluster ? 0 : 1);
    if (isAbandoned(sending)) sending.done(processLate());
    else if (isMissing || state === true)
      this.#write(sending, isMissing ? 'eval' : 'evalsha', (error, reply) =>
        this.#answered(sending, error, reply),
      );
    else if (state) state.push(sending);
    else this.#introduce(sending);
  }

  /** The first call brings the script, and learns the server's time. The others wait until it is answered. */
  #introduce(sending: Sending): void {
    const { sha } = sending.script;
    const waiting: Sending[] = [];
    this.#scripts.set(sha, waiting);
    this.#write(sending, 'eval', (error, reply) => {
      this.#scripts.set(sha, true);
      this.#answered(sending, error, reply);
      for (const other of waiting) {
        if (this.#commands.ready()) this.#attempt(other);
        else this.#whenConnected(other);
      }
    });
  }

  #write(sending: Sending, command: 'eval' | 'evalsha', done: Done): void {
    const { script, keys, args } = sending;
    const text = command === 'eval' ? script.source : script.sha;
    try {
      this.#commands.run(command, text, keys, args, () => this.#deadline(sending), done);
    } catch (error) {
      done(error as Error);
    }
  }

  /** The deadline of a call that is being written. The store's time begins now, even if this process wrote the call late. */
  #deadline(sending: Sending): string {
    const { asked, timeout } = sending;
    const sent = (sending.sent = performance.now());
    if (isAbandoned(sending)) return OVER;
    // The server refused the call in time, but this process read the refusal too late. The time begins anew.
    if (sent >= sending.until && (this.#time.known || this.#clock)) {
      const until = (sending.until = sent + timeout + this.#time.doubt(timeout));
      for (const { call } of asked) if (call) call.until = until;
    }
    return this.#clock ? String(-stepBy(this.#clock)) : this.#time.at(sending.until);
  }

  #answered(sending: Sending, error: Error | undefined, reply: unknown): void {
    if (error !== undefined) {
      this.#refused(sending, error);
      return;
    }
    const step: unknown = Array.isArray(reply) ? reply[0] : undefined;
    if (typeof step === 'number') this.#time.learn(step / 1000, sending.sent, performance.now());
    sending.done(undefined, reply);
  }

  /** Sends a call again if the server has not run it. Any other error ends the call. */
  #refused(sending: Sending, error: Error): void {
    const { message } = error;
    const { sha } = sending.script;
    if (message.startsWith('NOSCRIPT')) {
      sending.misses++;
      if (!this.#commands.cluster && this.#scripts.get(sha) === true) this.#scripts.delete(sha);
      this.#attempt(sending);
      return;
    }
    if (message.startsWith('TRYAGAIN')) {
      // The slot with the call's keys is being moved to another server.
      setTimeout(() => this.#attempt(sending), TRY_AGAIN_AFTER);
      return;
    }
    const now = LATE.exec(message)?.[1];
    if (now === undefined) {
      if (isUnknownCommand(error)) void explainUnknownCommand(this.#commands, error).then(sending.done);
      else sending.done(error);
      return;
    }
    // Until the first answer every call is late. After that, either the store's clock was set forward, or this process paused during the
    // call.
    if (this.#time.known) sending.refusals++;
    this.#time.learn(Number(now), sending.sent, performance.now());
    if (sending.refusals > 1) sending.done(processLate());
    else this.#attempt(sending);
  }
}

/** The latest step of each test clock. */
const steps = new WeakMap<Clock, number>();

/** A step by a test clock. Steps of one millisecond differ by their order in this process. */
function stepBy(clock: Clock): number {
  const step = stepAfter(steps.get(clock) ?? 0, clock());
  steps.set(clock, step);
  return step;
}

function isAbandoned({ asked }: Sending): boolean {
  for (const { call } of asked) if (!call?.abandoned) return false;
  return true;
}

function processLate(): HeadgateError {
  return new HeadgateError(
    'HEADGATE_PROCESS_LATE',
    'This process was too busy to send the call in time. The store is well, and the call changed nothing.',
  );
}
