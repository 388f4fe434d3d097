import { HeadgateError } from 'headgate';
import { withoutSecrets } from 'headgate/admin';
import { change } from './changes.js';
import {
  newToken,
  refuseForeign,
  refuseForged,
  refuseRemote,
  TOKEN_COOKIE,
  tokenOf,
  urlOf,
  type Refusal,
} from './guard.js';
import { showing } from './hidden.js';
import { bodyOf, MAX_IMPORT_BYTES, refuse, RefusedError, type Body } from './input.js';
import { causeIn, Now } from './now.js';
import { checkOperator, type Operator, type Settings } from './options.js';
import { PAGE, POLICY } from './page.js';
import { Poller } from './poller.js';
import { nameIn, Reads } from './reads.js';
import { eventStream } from './stream.js';
import { exportedLines, importLines, previewLines } from './transfers.js';
import { undo } from './undos.js';
import { visitorOf } from './visitors.js';
import { onPage } from './words.js';

/** The time between two readings of the state while somebody watches, ms. */
const POLL_MS = 2_000;

/** A request with the facts that only its framework has. */
export interface Asked {
  /** A request with all fields, and the body as text. */
  readonly request: Request;
  /** The path below the dashboard's own: `/api/now`. A slash at the end changes nothing. */
  readonly path: string;
  readonly ip: string | undefined;
  /** Returns the answer of `actions`, which may be wrong. */
  readonly operator: () => Promise<unknown>;
}

const HEADERS = {
  'cache-control': 'no-store, no-transform',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'x-frame-options': 'DENY',
};

/** Answers the requests of a dashboard. All viewers of a process share one. */
export class Service {
  readonly poller: Poller;
  readonly #settings: Settings<never>;
  readonly #now: Now;
  readonly #reads: Reads;

  constructor(settings: Settings<never>) {
    this.#settings = settings;
    const { admin, hideKeys } = settings;
    const show = showing(hideKeys);
    this.#now = new Now(admin, show);
    this.#reads = new Reads(admin, this.#now, show);
    this.poller = new Poller(POLL_MS, () => this.#now.read());
  }

  async answer(given: Asked): Promise<Response> {
    // Frameworks remove a slash at the end (Next.js), or add one, and may redirect to their form, so both forms have the same answer.
    const asked = { ...given, path: given.path.replace(/\/$/, '') };
    const { request, path, ip } = asked;
    const { actions, isLocal } = this.#settings;
    const refused = isLocal ? refuseRemote(request, ip, actions !== undefined) : undefined;
    if (refused) {
      // An operator is known, wherever the request comes from.
      const answer = await answered(async () =>
        checkOperator(await asked.operator()) ? undefined : failed(refused),
      );
      if (answer) return answer;
    }
    const isPage = path === '' || path === '/index.html';
    if (request.method === 'GET' || request.method === 'HEAD')
      return isPage ? page(request) : this.#read(asked);
    if (request.method === 'POST' && !isPage) return this.#write(asked);
    return failed({ status: 405, message: 'Pass GET, or POST with JSON.' }, { allow: 'GET, HEAD, POST' });
  }

  #read(asked: Asked): Promise<Response> {
    const refused = refuseForeign(asked.request);
    if (refused) return Promise.resolve(failed(refused));
    const query = urlOf(asked.request).searchParams;
    return answered(async () => {
      switch (asked.path) {
        case '/api/stream':
          return this.#stream(asked);
        case '/api/now':
          return json({ full: true, set: await this.#now.read(), gone: [], ...(await this.#visitor(asked)) });
        case '/api/limiter':
          return json(await this.#reads.limiter(nameIn(query), query));
        case '/api/denied':
          return json(await this.#reads.denied(nameIn(query)));
        case '/api/near':
          return json(await (query.has('name') ? this.#reads.near(nameIn(query)) : this.#reads.nearAll()));
        case '/api/use':
          return json(await this.#reads.use(nameIn(query)));
        case '/api/history':
          return json(await this.#reads.history(query));
        case '/api/log':
          return json(await this.#reads.log(query, visitorOf(asked.request)));
        case '/api/imported':
          return json(await this.#reads.imported(query, visitorOf(asked.request)));
        case '/api/export':
          return await this.#export(asked, query);
        default:
          return failed(NOT_FOUND);
      }
    });
  }

  /** Answers POST: questions that contain a key, which would stay in access logs as a part of the URL, and changes. */
  #write(asked: Asked): Promise<Response> {
    const refused = refuseForged(asked.request);
    if (refused) return Promise.resolve(failed(refused));
    return answered(async () => {
      const isOfFile = asked.path === '/api/import' || asked.path === '/api/preview';
      const body = await bodyOf(asked.request, isOfFile ? MAX_IMPORT_BYTES : undefined);
      switch (asked.path) {
        case '/api/key':
          return json(await this.#reads.key(body, visitorOf(asked.request)));
        case '/api/past':
          return json(await this.#reads.past(body, visitorOf(asked.request)));
        case '/api/sample':
          return json(await this.#reads.sample(body));
        case '/api/change':
          return this.#change(asked, (by) => change(this.#settings.admin, body, by));
        case '/api/undo':
          return this.#change(asked, (by) => undo(this.#settings.admin, body, by));
        case '/api/preview':
          return json(await this.#preview(asked, body));
        case '/api/import':
          return this.#change(asked, (by) => importLines(this.#settings.admin, body, by));
        default:
          return failed(NOT_FOUND);
      }
    });
  }

  async #stream(asked: Asked): Promise<Response> {
    const stream =
      asked.request.method === 'HEAD' ? null : eventStream(this.poller, await this.#visitor(asked));
    return new Response(stream, {
      headers: { ...HEADERS, 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' },
    });
  }

  /** The lines of bans or overrides, which have whole keys. */
  async #export(asked: Asked, query: URLSearchParams): Promise<Response> {
    await this.#operator(asked);
    if (this.#settings.hideKeys)
      refuse('The page hides keys, so it exports none. Use the command line.', 403);
    const lines = await this.#reads.inTurn(() => exportedLines(this.#settings.admin, query));
    return new Response(lines, {
      headers: { ...HEADERS, 'content-type': 'application/x-ndjson; charset=utf-8' },
    });
  }

  /** The effects of an import, which only operators need. */
  async #preview(asked: Asked, body: Body): Promise<object> {
    await this.#operator(asked);
    return this.#reads.inTurn(() => previewLines(this.#settings.admin, body));
  }

  /** @throws RefusedError for a visitor without an operator's rights */
  async #operator(asked: Asked): Promise<Operator> {
    const operator = checkOperator(await asked.operator());
    return operator ?? refuse('You may read this page, and not change limits.', 403);
  }

  async #change(asked: Asked, make: (by: string) => Promise<object>): Promise<Response> {
    const { by } = await this.#operator(asked);
    try {
      return json(await make(by));
    } finally {
      // A change that failed may have changed some of its keys.
      this.#now.expire();
      this.#reads.expire();
      await this.poller.refresh();
    }
  }

  async #visitor(asked: Asked): Promise<object> {
    const operator = checkOperator(await asked.operator());
    const { title, hideKeys, flags } = this.#settings;
    return { me: operator ? { by: operator.by, flags } : null, title, hideKeys };
  }

  close(): Promise<void> {
    return this.#settings.admin.close();
  }
}

const NOT_FOUND: Refusal = { status: 404, message: 'The dashboard has no such page.' };

function json(body: Body | object, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...HEADERS, 'content-type': 'application/json; charset=utf-8', ...headers },
  });
}

export const failed = ({ status, message }: Refusal, headers?: Record<string, string>): Response =>
  json({ error: message }, status, headers);

async function answered<T>(answer: () => Promise<T>): Promise<T | Response> {
  try {
    return await answer();
  } catch (error) {
    if (error instanceof RefusedError) return failed(error);
    const denied = permissionIn(error);
    if (denied !== undefined) return failed({ status: 503, message: denied });
    if (!(error instanceof HeadgateError)) throw error;
    const { code, message } = error;
    const isOfStore = code.startsWith('HEADGATE_STORE');
    return json({ error: isOfStore ? causeIn(message) : onPage(message), code }, isOfStore ? 503 : 400);
  }
}

/** The missing permission of the user of Redis, if that is the cause of an error. */
function permissionIn(error: unknown): string | undefined {
  const { message = '', cause } = error instanceof Error ? error : {};
  const [found] = /NOPERM[^\n]*/.exec(message) ?? [];
  if (found === undefined) return cause === undefined ? undefined : permissionIn(cause);
  return withoutSecrets(`The user of Redis lacks a permission that this needs: ${found}`);
}

function page(request: Request): Response {
  const headers = new Headers({
    ...HEADERS,
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': POLICY,
    'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  });
  // The page's script repeats the token, so it must be able to read the cookie. The cookie admits nobody.
  const isSecure =
    urlOf(request).protocol === 'https:' || request.headers.get('x-forwarded-proto')?.startsWith('https');
  headers.append(
    'set-cookie',
    `${TOKEN_COOKIE}=${tokenOf(request) ?? newToken()}; Path=/; SameSite=Strict${isSecure ? '; Secure' : ''}`,
  );
  return new Response(request.method === 'HEAD' ? null : PAGE, { headers });
}
