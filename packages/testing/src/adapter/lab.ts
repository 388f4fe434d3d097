import {
  memoryStore,
  type Clock,
  type CreateLimiterOptions,
  type Decision,
  type Policy,
  type Store,
} from 'headgate';
import type { HttpOptions } from 'headgate/http';
import type { MaybePromise } from 'headgate/stores';
import { TestClock } from 'headgate/testing';
import type { Readable } from 'node:stream';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeCheck, type Check } from '../check.js';
import { expectEqual, expectFields, Mismatch } from '../expect.js';
import { limiterOn } from '../subject.js';
import { ask, pipeline, problemOf, remainingOf, send, type Answer, type Ask } from './client.js';

/** The answer of a route. */
export interface AppAnswer {
  /** The status code. @default 200 */
  readonly status?: number;
  /** A stream is sent as it arrives. @default 'ok' */
  readonly body?: string | Readable;
}

/** An app with one route. */
export interface App<Req = unknown, Res = unknown> {
  /** The options of the route's limiters, in order. */
  readonly limiters: readonly HttpOptions<Req, Res>[];
  /** Header fields of every answer of the app, which a middleware would set before the limiters: see `AdapterUnderTest.setsHeaders`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Returns the route's answer to an admitted request. Call `answer` once per request. */
  answer(request: Req): Promise<AppAnswer>;
}

/** A running app. */
export interface RunningApp {
  /** The URL of its route. */
  readonly url: string;
  /** Stops the app, and closes all remaining connections. */
  close(): MaybePromise<void>;
}

/** An adapter to test. `Req` and `Res` are the types that the framework's handlers, or the functions in the options, receive. */
export interface AdapterUnderTest<Req, Res> {
  /**
   * Starts an app on a free port of 127.0.0.1. The app serves all methods of `/`, and takes a client's address from `X-Forwarded-For`. The
   * answer to a failed request is 500 with the error's `code`, or with the error's message if there is no code.
   */
  start(app: App<Req, Res>): Promise<RunningApp>;
  /** Whether `start` sets `app.headers` before the limiters. Denials are then checked to have them, too. @default false */
  readonly setsHeaders?: boolean;
  /** Makes a store without state. @default a memory store */
  createStore?(clock: Clock): MaybePromise<Store>;
  /** Reads a header field of a request. @default from `request.headers`, an object or `Headers` */
  headerOf?(request: Req, name: string): string | undefined;
  /** The decision that a request's handler can see. @default request.rateLimit */
  decisionOf?(request: Req): Decision | undefined;
  /** A response's status. @default response.statusCode, or response.status if there is none */
  statusOf?(response: Res): number;
  /** The longest time that a check waits for an event, ms. @default 5_000 */
  readonly patience?: number;
  /** Sends a text from a user's `handler`. @default response.send(text) */
  respond?(response: Res, text: string): unknown;
}

export type Options = HttpOptions<unknown, unknown>;

/** The app, the store and the clock of one check. */
export class AdapterLab {
  readonly clock = new TestClock();
  store!: Store;
  readonly #adapter: AdapterUnderTest<unknown, unknown>;
  readonly #patience: number;
  #app: RunningApp | undefined;
  readonly #answered = new WeakSet<object>();
  #repeated = 0;

  constructor(adapter: AdapterUnderTest<unknown, unknown>) {
    this.#adapter = adapter;
    this.#patience = adapter.patience ?? 5_000;
  }

  /** Starts over without state. */
  async renew(): Promise<void> {
    await this.close();
    this.store =
      (await this.#adapter.createStore?.(this.clock.read)) ?? memoryStore({ clock: this.clock.read });
  }

  async serve(
    limiters: Options | readonly Options[],
    answer?: (request: unknown) => MaybePromise<AppAnswer>,
    headers?: Readonly<Record<string, string>>,
  ): Promise<void> {
    const complete = [limiters].flat().map((options, i): Options => {
      if ('limiter' in options) return options;
      return { store: this.store, name: `limiter-${i}`, timeout: '1m', onStoreError: 'throw', ...options };
    });
    this.#app = await this.#adapter.start({
      limiters: complete,
      ...(headers && { headers }),
      answer: async (request) => {
        if (this.#answered.has(request as object)) this.#repeated++;
        this.#answered.add(request as object);
        return (await answer?.(request)) ?? {};
      },
    });
  }

  /** Checks that no request was answered twice, because a client sees only the first answer. */
  expectAnsweredOnce(): void {
    expectEqual('the requests that went on more than once', this.#repeated, 0);
  }

  begin(signal?: AbortSignal): Promise<Response> {
    return send(this.#app!.url, signal, this.#patience);
  }

  /** Sends `n` requests in one packet. */
  pipeline(n: number): Promise<string[]> {
    return pipeline(this.#app!.url, n, this.#patience);
  }

  get(options: Ask = {}): Promise<Answer> {
    return ask(this.#app!.url, options, this.#patience);
  }

  async statuses(n: number, options?: Ask): Promise<number[]> {
    const statuses: number[] = [];
    for (let i = 0; i < n; i++) statuses.push((await this.get(options)).status);
    return statuses;
  }

  async expectStatuses(what: string, expected: readonly number[], options?: Ask): Promise<void> {
    expectEqual(`the statuses of ${what}`, await this.statuses(expected.length, options), expected);
  }

  async expectRemaining(what: string, expected: number, options?: Ask): Promise<void> {
    expectEqual(`RateLimit-Remaining, ${what}`, remainingOf(await this.get(options)), expected);
  }

  /** Sends a request, and expects the given properties of the answer, the header fields and the problem details. */
  async expect(
    what: string,
    { headers, problem, ...rest }: { status?: number; text?: string; headers?: object; problem?: object },
    options?: Ask,
  ): Promise<Answer> {
    const answer = await this.get(options);
    expectFields(what, answer, rest);
    if (headers) expectFields(`${what}, the header fields`, answer.headers, headers);
    if (problem) expectFields(`${what}, the body`, problemOf(answer), problem);
    return answer;
  }

  async until(what: string, holds: () => MaybePromise<boolean>): Promise<void> {
    const end = performance.now() + this.#patience;
    while (!(await holds())) {
      if (performance.now() > end) throw new Mismatch(what, false, true, `within ${this.#patience} ms`);
      await sleep(1);
    }
  }

  /** A limiter on the state of the app's first limiter. */
  limiter(options: CreateLimiterOptions) {
    return limiterOn(this.store, { name: 'limiter-0', ...options });
  }

  headerOf(request: unknown, name: string): string | undefined {
    if (this.#adapter.headerOf) return this.#adapter.headerOf(request, name);
    const { headers } = request as { headers: Headers | Readonly<Record<string, string | undefined>> };
    return headers instanceof Headers ? (headers.get(name) ?? undefined) : headers[name];
  }

  decisionOf(request: unknown): Decision | undefined {
    if (this.#adapter.decisionOf) return this.#adapter.decisionOf(request);
    return (request as { rateLimit?: Decision }).rateLimit;
  }

  statusOf(response: unknown): number {
    if (this.#adapter.statusOf) return this.#adapter.statusOf(response);
    const { statusCode, status } = response as { statusCode?: number; status?: number };
    return statusCode ?? status!;
  }

  respond(response: unknown, text: string): unknown {
    if (this.#adapter.respond) return this.#adapter.respond(response, text);
    const { send } = response as { send?(body: string): unknown };
    if (!send) throw new Error('The response has no method send. Pass the option respond to adapterChecks.');
    return send.call(response, text);
  }

  keyBy(name: string): (request: unknown) => string | undefined {
    return (request) => this.headerOf(request, name);
  }

  async close(): Promise<void> {
    const app = this.#app;
    this.#app = undefined;
    await app?.close();
    await (this.store as Store | undefined)?.close?.();
  }
}

export class AdapterSuite {
  readonly checks: Check[] = [];
  readonly #name: string;
  readonly #adapter: AdapterUnderTest<unknown, unknown>;
  /** Whether the adapter's apps set header fields before the limiters. */
  readonly setsHeaders: boolean;

  constructor(name: string, adapter: AdapterUnderTest<unknown, unknown>) {
    this.#name = name;
    this.#adapter = adapter;
    this.setsHeaders = adapter.setsHeaders ?? false;
  }

  add(name: string, body: (lab: AdapterLab) => Promise<void>): void {
    const run = async () => {
      const lab = new AdapterLab(this.#adapter);
      try {
        await lab.renew();
        await body(lab);
        lab.expectAnsweredOnce();
      } finally {
        await lab.close();
      }
    };
    this.checks.push(makeCheck(this.#name, name, run));
  }
}

/** A policy with predictable times: all units become free at the window's end. */
export const minute = (limit: number, name = 'minute'): Policy => ({
  name,
  algorithm: 'fixed-window',
  limit,
  window: '1m',
});

/** The results that an option's function may return: a value, or a promise. */
export const LATER = {
  sync: <T>(value: T): T => value,
  async: <T>(value: T): Promise<T> => Promise.resolve(value),
};

/** A route that answers with the policy and remaining units of the request's decision. */
export const answerDecision = (lab: AdapterLab) => (request: unknown) => {
  const decision = lab.decisionOf(request);
  return { body: `${decision?.policy} ${decision?.remaining}` };
};

/** A store that passes calls on to the lab's store, except for the methods in `changed`. */
export const storeBut = (lab: AdapterLab, changed: Partial<Store>): Store => ({
  decide: (query) => lab.store.decide(query),
  adjust: (change) => lab.store.adjust(change),
  lease: (change) => lab.store.lease(change),
  reset: (subject) => lab.store.reset(subject),
  ban: (subject, duration) => lab.store.ban(subject, duration),
  ...changed,
});

const away = () => Promise.reject(new Error('away'));
/** The methods of a store that cannot be reached. */
export const AWAY = { adjust: away, lease: away, reset: away, ban: away };

/** A body that has begun and not ended. */
export function begun(): PassThrough {
  const body = new PassThrough();
  body.write('begun');
  return body;
}
