import { HeadgateError, invalidOption } from '../../../common/errors.js';
import { clearTimeout, performance, setTimeout } from '../../../common/real-time.js';
import { checkShape } from '../../../common/validate.js';
import { COMMANDS, type Commands, type Done, type ScriptCall, type Server } from './commands.js';

/** The options of {@link upstashRedis}. */
export interface UpstashOptions {
  /** The address of the REST API, `https://...`. Upstash calls the value `UPSTASH_REDIS_REST_URL`. */
  url: string;
  /** The token that may run scripts. A read-only token may not. Upstash calls the value `UPSTASH_REDIS_REST_TOKEN`. */
  token: string;
  /** The function that sends the requests. @default the global `fetch` at the time of each request */
  fetch?: typeof fetch | undefined;
}

/** The members that {@link upstashRedis} uses of a `Redis` of `@upstash/redis`: its address and token. */
export interface UpstashLike {
  /** Distinguishes the client in TypeScript. Never called. */
  pipeline(): object;
  /** Distinguishes the client in TypeScript. Never called. */
  evalsha(...args: never[]): Promise<unknown>;
}

/** A Redis that is reached over HTTP, as {@link upstashRedis} returns it. */
export interface UpstashRedis {
  /** The address of the REST API. */
  readonly url: string;
}

/** The time after which a request without a caller's deadline is aborted, ms. */
const REQUEST_TIMEOUT_MS = 5000;

/** The time for which a request outlives the deadlines of its callers, ms, because a busy process reads a reply late. */
const GRACE_MS = 1000;

/** The status codes of requests that the server refused before it ran anything. */
const REFUSED = [400, 401, 403, 404, 405, 413, 429];

/** Possible reasons for a status, with their fixes. */
const FIXES: Readonly<Record<number, string>> = {
  401: 'Pass the token of the REST API: UPSTASH_REDIS_REST_TOKEN.',
  403: 'Pass a token that may run scripts, not the read-only one.',
  404: 'Pass the address of the REST API: UPSTASH_REDIS_REST_URL.',
  429: 'The plan allows no more requests at present.',
};

/** The fix for a redirect, which is not followed, because another server must not receive the keys. */
const REDIRECTED =
  'Redirects are not followed, because the requests contain keys. Pass the address to which it redirects.';

/** One command that waits for the end of the turn, or for its reply. */
interface Waiting {
  readonly words: () => readonly string[];
  readonly done: Done;
  /** Returns the end of the callers' time, by `performance.now()`. */
  readonly until: () => number;
}

/** One element of a reply, as the REST API returns it. */
interface Answer {
  readonly result?: unknown;
  readonly error?: string;
}

/**
 * A Redis behind Upstash's REST API, or a proxy with the same protocol.
 *
 * @param options the address and the token; or a `Redis` of `@upstash/redis`, of which only the address and the token are used, because
 * the client repeats requests, which would count them twice
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function upstashRedis(options: UpstashOptions | UpstashLike | UpstashRedis): UpstashRedis {
  if (options instanceof UpstashCommands) return options;
  const { client } = options as { client?: { baseUrl?: string; headers?: { authorization?: string } } };
  if (client?.headers?.authorization)
    return new UpstashCommands(checkUrl(client.baseUrl), client.headers.authorization);
  checkShape('upstashRedis', options, ['url', 'token', 'fetch']);
  const { url, token, fetch: send } = options as Partial<UpstashOptions>;
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token))
    throw invalidOption('upstashRedis.token', token, FIXES[401]!);
  if (send !== undefined && typeof send !== 'function')
    throw invalidOption('upstashRedis.fetch', send, 'Pass a function like the global fetch.');
  return new UpstashCommands(checkUrl(url), `Bearer ${token}`, send);
}

function checkUrl(url: unknown): string {
  if (typeof url === 'string' && /^https?:\/\/[^\s/@?#]+(\/[^\s?#]*)?$/.test(url))
    return url.replace(/\/$/, '');
  throw invalidOption(
    'upstashRedis.url',
    url,
    'Pass the https:// address of the REST API, without a password.',
  );
}

/** Sends the commands of one callback as one request. Requests are not repeated: a request without an answer may have run. */
export class UpstashCommands implements Commands, UpstashRedis {
  readonly [COMMANDS] = this;
  readonly url: string;
  readonly cluster = false;
  readonly keyPrefix = '';
  readonly connectionless = true;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch | undefined;
  readonly #listeners = new Set<(server: string | undefined) => void>();
  readonly #never = new Promise<void>(() => {});
  #turn: Waiting[] = [];

  constructor(url: string, authorization: string, send?: typeof fetch) {
    this.url = url;
    this.#headers = { authorization, 'content-type': 'application/json', 'upstash-encoding': 'base64' };
    this.#fetch = send;
  }

  together(send: () => void): void {
    send();
  }

  ready(): boolean {
    return true;
  }

  whenReady(): Promise<void> {
    return this.#never;
  }

  connected(): Promise<void> {
    return Promise.resolve();
  }

  listen(): () => void {
    return () => {};
  }

  onLost(listener: (server: string | undefined) => void): void {
    this.#listeners.add(listener);
  }

  waitsFor(): undefined {
    return undefined;
  }

  servers(): readonly Server[] {
    return [{ name: '', send: (command) => this.#ask(command) }];
  }

  call(...command: string[]): Promise<unknown> {
    return this.#ask(command);
  }

  serverOf(): undefined {
    return undefined;
  }

  hazards(): [] {
    return [];
  }

  run(command: 'eval' | 'evalsha', script: string, call: ScriptCall): void {
    const { keys, args } = call;
    this.#push({
      words: () => {
        args[0] = call.deadline();
        return [command.toUpperCase(), script, String(keys.length), ...keys, ...args];
      },
      done: (error, reply) => call.done(error, reply),
      until: () => call.until ?? 0,
    });
  }

  #ask(command: readonly string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const done: Done = (error, reply) => (error ? reject(error) : resolve(reply));
      this.#push({ words: () => command, done, until: () => 0 });
    });
  }

  /** A microtask, not a later turn: on Cloudflare Workers no request may wait for the input and output of another one. */
  #push(waiting: Waiting): void {
    if (this.#turn.push(waiting) === 1) queueMicrotask(() => void this.#flush());
  }

  async #flush(): Promise<void> {
    const turn = this.#turn;
    this.#turn = [];
    const commands = turn.map(({ words }) => words());
    const latest = Math.max(...turn.map(({ until }) => until()));
    const timeout = latest > 0 ? latest - performance.now() + GRACE_MS : REQUEST_TIMEOUT_MS;
    const answers = await this.#send(commands, timeout).catch((error: Error) => error);
    if (answers instanceof Error) {
      for (const listener of this.#listeners) listener(undefined);
      for (const { done } of turn) done(answers);
      return;
    }
    for (const [i, { done }] of turn.entries()) {
      const { error, result } = answers[i]!;
      if (error === undefined) done(undefined, decoded(result));
      else done(errorOf(error, commands[i]![0]!));
    }
  }

  /** @throws HeadgateError `HEADGATE_STORE_AWAY` or `HEADGATE_STORE_ERROR`, unless the server has answered each command */
  async #send(commands: readonly (readonly string[])[], timeout: number): Promise<readonly Answer[]> {
    const isAlone = commands.length === 1;
    const aborter = new AbortController();
    const timer = setTimeout(() => aborter.abort(), timeout).unref();
    let status = 0;
    try {
      const response = await (this.#fetch ?? fetch)(isAlone ? this.url : `${this.url}/pipeline`, {
        method: 'POST',
        headers: this.#headers,
        body: JSON.stringify(isAlone ? commands[0] : commands),
        signal: aborter.signal,
        redirect: 'manual',
        // Next.js caches the answers of `fetch`. Cloudflare's older Workers refuse the option.
        ...('cache' in Request.prototype && { cache: 'no-store' }),
      });
      status = response.status;
      if (isRedirect(response)) throw refusalOf(status, '', REDIRECTED);
      const answers = answersIn(await response.text());
      const error = answers?.[0]?.error;
      // The command itself has failed, not the request.
      const isOfCommand = status === 400 && isAlone && error !== undefined;
      if (answers?.length === commands.length && (status === 200 || isOfCommand)) return answers;
      throw refusalOf(status, error ?? '');
    } catch (error) {
      if (error instanceof HeadgateError) throw error;
      const why = aborter.signal.aborted ? 'it did not answer in time' : reasonOf(error);
      const message = `The request to ${this.url} failed${status ? ` after the status ${status}` : ''}: ${why}.`;
      throw new HeadgateError('HEADGATE_STORE_AWAY', message, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The answers in a response. An error of the whole request is one answer. Undefined if the text is not of this protocol. */
function answersIn(text: string): readonly Answer[] | undefined {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return undefined;
  }
  const answers = Array.isArray(body) ? (body as unknown[]) : [body];
  const areAnswers = answers.every(
    (each) =>
      typeof each === 'object' &&
      each !== null &&
      ('result' in each || typeof (each as Answer).error === 'string'),
  );
  return areAnswers ? (answers as Answer[]) : undefined;
}

/** Whether a server names another address. Some runtimes hide the status of such a response. */
function isRedirect({ status, type }: Response): boolean {
  return (status >= 300 && status < 400) || type === 'opaqueredirect';
}

/** The error for a status other than 200. @param fix by default the fix for the status */
function refusalOf(status: number, words: string, fix = FIXES[status]): HeadgateError {
  const cause = new Error(`HTTP ${status} ${words}`);
  const text = [`The REST API of Redis answered with the status ${status}${words && `: ${words}`}.`, fix];
  const code =
    REFUSED.includes(status) || fix === REDIRECTED ? 'HEADGATE_STORE_ERROR' : 'HEADGATE_STORE_AWAY';
  return new HeadgateError(code, text.filter(Boolean).join(' '), { cause });
}

/** The error of one command. The REST API has no connection that a command could change, block or subscribe. */
function errorOf(words: string, command: string): Error {
  if (!/command is not available|unsupported command/i.test(words)) return new Error(words);
  const message = `Redis over HTTP cannot run ${command}. Use a client that connects by TCP for this command.`;
  return new HeadgateError('HEADGATE_STORE_ERROR', message, { cause: new Error(words) });
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? message ?? String(error);
}

/** A result whose strings are in base64, except for `OK`, and for those of a proxy that ignores the encoding. */
function decoded(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(decoded);
  if (typeof result !== 'string' || result === 'OK') return result;
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(result), (character) => character.charCodeAt(0)));
  } catch {
    return result;
  }
}
