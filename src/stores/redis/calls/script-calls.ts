import { HeadgateError, invalidOption } from '../../../common/errors.js';
import { oncePer } from '../../../common/lazy.js';
import { isSignal, PASSED_DEADLINE, type Commands, type Done, type ScriptCall } from '../clients/commands.js';
import { performance, setTimeout } from '../../../common/real-time.js';
import type { Script } from '../scripts.js';
import { explainUnsupported, isUnknownCommand, lacksLua } from '../server-version.js';
import { stepAfter, stepOf, type Clock, type Subject } from '../../../contract/store.js';

/** The signal with which the server refuses a late call. Such a call has changed nothing. */
const LATE_SIGNAL = /^HEADGATE_LATE (\d+)/;

/** The pause before a call to a moving slot is sent again, ms. */
const MOVING_SLOT_PAUSE_MS = 5;

/** The normal delay of a timer in a process that is not busy, ms. */
const TIMER_DELAY_MS = 5;

export interface Call {
  readonly script: Script;
  readonly keys: readonly string[];
  /** The script's arguments. The first one, the deadline, is set when the call is written. */
  readonly args: string[];
  /** The time limit of the caller, ms, counted from the moment at which the call is written. */
  readonly timeout: number;
  /** The questions in the call. A call is not sent again after the last question is abandoned. */
  readonly asked: readonly Subject[];
}

/**
 * Runs scripts. Each call takes effect at most once, and only while its caller waits. A call is repeated only if the server has certainly
 * not run it: the server does not know the script, refused the call as late, or is moving its slot.
 */
export class ScriptCalls {
  readonly commands: Commands;
  readonly clock: Clock | undefined;
  readonly time = new StoreTime();
  /** By a script's hash: `true` if the server knows the script. While a first call brings the script, the calls that wait for the script. */
  readonly scripts = new Map<string, true | Sending[]>();
  /** The losses of the client when the scripts were known. */
  losses: number | undefined;

  /** Whether the calls may be for several servers, so that each call brings its script. */
  readonly isOfMany: boolean;

  /**
   * @param clock replaces the server's clock, for tests; calls then have no deadline
   * @param server the server of all calls in a cluster; `undefined` if it is unknown
   */
  constructor(commands: Commands, clock: Clock | undefined, server?: string) {
    this.isOfMany = commands.cluster && server === undefined;
    this.commands = commands;
    this.clock = clock;
    const now = performance.now();
    if (commands.connectionless) this.time.learn(Date.now(), now, now);
  }

  /** @throws HeadgateError `HEADGATE_STORE_AWAY`, `HEADGATE_PROCESS_LATE`; otherwise the client's error */
  run(call: Call): Promise<unknown> {
    return new Promise((resolve, reject) => {
      new Sending(this, call, (error, reply) => {
        if (error === undefined) resolve(reply);
        else reject(error);
      }).write();
    });
  }

  /**
   * Forgets the known scripts after the loss of a connection, because the server may have lost them, too. A client may have hooks for errors, such
   * as ioredis' `reconnectOnError`, by which the error for an unknown script would end the connection again.
   */
  forgetLost(): void {
    this.losses = this.commands.losses;
    for (const [sha, state] of this.scripts) if (state === true) this.scripts.delete(sha);
  }
}

/** A call under way, once it is written. Like `ScriptCalls.run`, without a promise. */
export class Sending implements ScriptCall {
  declare readonly keys: readonly string[];
  declare readonly args: string[];
  declare readonly calls: ScriptCalls;
  declare readonly call: Call;
  declare readonly end: Done;
  /** The last time at which the call was written, by `performance.now()`. */
  declare sent: number;
  /** The end of the callers' time, by `performance.now()`. 0 until the call is written. */
  declare until: number;
  /** The count of replies that the server does not know the script. */
  declare misses: number;
  /** The count of refusals as late although the server's time was known. */
  declare refusals: number;
  /** The calls that wait for the script brought by this call. */
  declare brings: Sending[] | undefined;

  /** The constructor only assigns fields, and no member is private, because V8 initializes private members by a call. */
  constructor(calls: ScriptCalls, call: Call, end: Done) {
    this.calls = calls;
    this.call = call;
    this.keys = call.keys;
    this.args = call.args;
    this.end = end;
    this.sent = 0;
    // A batch that is sent in parts, or again, keeps its time.
    this.until = call.asked[0]!.call?.until ?? 0;
    this.misses = 0;
    this.refusals = 0;
    this.brings = undefined;
  }

  /** Writes the call at once, or as soon as the client is ready. */
  write(isReady = this.calls.commands.ready()): void {
    const { commands, scripts } = this.calls;
    if (!isReady) return void commands.connected().then(() => this.write(true), this.end);
    if (this.calls.losses !== commands.losses) this.calls.forgetLost();
    const past = this.calls.clock && pastClockError(this.calls.clock);
    if (past) return this.end(past);
    const { sha, source } = this.call.script;
    const isAlone = commands.connectionless;
    const state = isAlone ? true : scripts.get(sha);
    // Each server of a cluster needs the script, so in a cluster a call brings the script if its server lacks it.
    const isMissing = this.calls.isOfMany || this.misses > (commands.cluster || isAlone ? 0 : 1);
    if (this.isAbandoned()) return this.end(processLate());
    if (!isMissing && Array.isArray(state)) return void state.push(this);
    // The first call brings the script, and learns the server's time. Later calls wait for the answer.
    if (!isMissing && !state) scripts.set(sha, (this.brings = []));
    const isKnown = state === true && !isMissing;
    try {
      commands.run(isKnown ? 'evalsha' : 'eval', isKnown ? sha : source, this);
    } catch (error) {
      this.done(error as Error);
    }
  }

  /** The store's time begins now, even if this process writes the call late. */
  deadline(): string {
    const { time, clock } = this.calls;
    const sent = (this.sent = performance.now());
    if (this.isAbandoned()) return PASSED_DEADLINE;
    // Either the call is written for the first time, or this process read the server's refusal too late. The time begins anew.
    if (sent >= this.until && (time.known || clock)) {
      const { timeout, asked } = this.call;
      const until = (this.until = sent + timeout + time.doubt(timeout));
      for (const { call } of asked) if (call) call.until = until;
    }
    return clock ? String(-stepBy(clock, this.call.asked.length)) : time.at(this.until);
  }

  done(error: Error | undefined, reply?: unknown): void {
    const brings = this.brings;
    if (brings) {
      this.brings = undefined;
      this.calls.scripts.set(this.call.script.sha, true);
    }
    if (error === undefined && typeof reply === 'string' && isSignal(reply)) error = new Error(reply);
    if (error === undefined) {
      const step: unknown = Array.isArray(reply) ? reply[0] : undefined;
      if (typeof step === 'number') this.calls.time.learn(step / 1000, this.sent, performance.now());
      this.end(undefined, reply);
    } else {
      this.refused(error);
    }
    for (const other of brings ?? []) other.write();
  }

  /** Sends the call again if the server has not run it. Any other error ends the call. */
  refused(error: Error): void {
    const { commands, scripts, time } = this.calls;
    const { message } = error;
    const { sha } = this.call.script;
    if (message.startsWith('NOSCRIPT')) {
      this.misses++;
      if (!commands.cluster && scripts.get(sha) === true) scripts.delete(sha);
      this.write();
      return;
    }
    if (message.startsWith('TRYAGAIN')) {
      this.tryAgain(error);
      return;
    }
    const now = LATE_SIGNAL.exec(message)?.[1];
    if (now === undefined) {
      if (isUnknownCommand(error) || lacksLua(error))
        void explainUnsupported(commands, error).then(this.end, this.end);
      else this.end(error);
      return;
    }
    // Until the first answer every call is late. Later, either the store's clock was set forward, or this process paused during the call.
    if (time.known) this.refusals++;
    time.learn(Number(now), this.sent, performance.now());
    if (this.refusals > 1) this.end(processLate());
    else this.write();
  }

  /** Sends the call again after a pause, because its slot is moving to another server. The pause is part of the caller's time. */
  tryAgain(error: Error): void {
    const refused = performance.now();
    setTimeout(() => {
      const now = performance.now();
      const isBusy = refused >= this.until || now - refused > MOVING_SLOT_PAUSE_MS + TIMER_DELAY_MS;
      if (now >= this.until && !isBusy) this.end(error);
      else this.write();
    }, MOVING_SLOT_PAUSE_MS);
  }

  isAbandoned(): boolean {
    for (const { call } of this.call.asked) if (!call?.abandoned) return false;
    return true;
  }
}

/**
 * Translates times of this process into the store's time, for deadlines. The clocks may differ, and may be set while the process runs. The
 * store's clock is therefore learned from the replies, each of which begins with the store's time.
 */
export class StoreTime {
  /** Bounds of the difference between the store's time and the monotonic time of this process, ms. */
  #least = 0;
  #most = 0;
  /** Whether there was a reply already. */
  known = false;
  /** The last translated time, with its text. V8 formats large numbers slowly, and many calls share a millisecond. */
  #translated = 0;
  #text = '0';

  /**
   * Learns from a reply.
   *
   * @param now the store's time, ms
   * @param sent the time of the call, and `received` the time of its reply, by `performance.now()`
   */
  learn(now: number, sent: number, received: number): void {
    const least = now - received;
    const most = now + 1 - sent;
    // A reply that contradicts the bounds shows that the store's clock was set.
    if (!this.known || least > this.#most || most < this.#least) {
      this.known = true;
      this.#least = least;
      this.#most = most;
      return;
    }
    // The fastest reply gives the narrowest bounds.
    this.#least = Math.max(this.#least, least);
    this.#most = Math.min(this.#most, most);
  }

  /**
   * The time to wait for a call beyond `timeout`, ms, because the deadline may be too early by as much. 0 unless a busy process read all
   * replies late, so that the store would refuse calls that are in time.
   */
  doubt(timeout: number): number {
    return this.known ? Math.max(0, this.#most - this.#least - timeout / 2) : 0;
  }

  /** Translates a time by `performance.now()` into the store's time, rounded down, so that calls never run late. */
  at(moment: number): string {
    if (!this.known) return PASSED_DEADLINE;
    const ms = Math.floor(moment + this.#least);
    if (ms !== this.#translated) {
      this.#translated = ms;
      this.#text = String(ms);
    }
    return this.#text;
  }
}

/** The last step of each test clock. */
const lastOf = oncePer((_: Clock) => ({ step: 0 }));

/** A step by a test clock. Steps in the same millisecond differ by their order in this process. @param count the count of questions */
function stepBy(clock: Clock, count: number): number {
  const last = lastOf(clock);
  const step = stepAfter(last.step, clock());
  last.step = stepOf(step, count - 1);
  return step;
}

/** The most by which a test's clock may be behind real time, because the clocks of server and process may differ, ms. */
const MAX_CLOCK_LAG_MS = 1000;

/** The error for a test's clock in the past. The server would delete each key at once, so that nothing would be limited. */
export function pastClockError(clock: Clock): HeadgateError | undefined {
  const now = clock();
  if (now >= performance.timeOrigin + performance.now() - MAX_CLOCK_LAG_MS) return undefined;
  const fix = "Keys expire by the server's clock, so start at the present or later, as new TestClock() does.";
  return invalidOption('redisStore.clock', new Date(now).toISOString(), fix);
}

function processLate(): HeadgateError {
  return new HeadgateError(
    'HEADGATE_PROCESS_LATE',
    'This process was too busy to send the call in time. The store is healthy, and the call had no effect.',
  );
}
