// Sends a trace to the real limiter on the real memory store, by the virtual clock.
import {
  createLimiter,
  memoryStore,
  parsePolicy,
  type BanOptions,
  type Decision,
  type HeadgateError,
  type Key,
  type Limiter,
  type Policy,
} from 'headgate';
import { denial, rateLimitHeaders } from 'headgate/http';
import { peakOf, type Peak } from './peak.js';
import { COMPARED, linesOf, type Settings } from './settings.js';
import { traceOf, type TracedRequest } from './trace.js';
import { time } from './virtual-time.js';

/** The result for one request. */
export interface Outcome extends TracedRequest {
  readonly kind: 'admitted' | 'delayed' | 'denied';
  /** The time of the answer, ms from the start. */
  readonly end: number;
  /** The time at which the request would be admitted, ms from the start, or `undefined` if it was, or if waiting does not help. */
  readonly retryAt: number | undefined;
  readonly decision: Decision;
}

/** The results of a set of policies. */
export interface Lane {
  readonly name: string;
  /** In the order of the requests. */
  readonly outcomes: readonly Outcome[];
  readonly counts: Readonly<Record<Outcome['kind'], number>>;
  /** The longest `Retry-After`, ms. */
  readonly longestRetry: number;
  /** The worst window of the first policy. */
  readonly peak: Peak | undefined;
}

export interface Simulation {
  readonly lanes: readonly Lane[];
  /** The end of the trace, ms from its start. */
  readonly length: number;
}

/** The requests of an access log. */
export interface AccessLog {
  readonly name: string;
  /** The time of the first request, ms since the epoch. */
  readonly start: number;
  readonly requests: readonly TracedRequest[];
}

/** The start of patterns. Calendars begin a period here. */
export const START = Date.UTC(2026, 0, 1);

/** Runs the policies, and then each algorithm beside them. @throws HeadgateError for an invalid policy, ban or wait */
export async function simulate(settings: Settings, log?: AccessLog): Promise<Simulation> {
  const own = setUp(linesOf(settings), settings, log);
  const [first] = own.limiter.policies;
  const trace = traceOf(settings, first?.window ?? 1000, log?.requests ?? []);
  const lanes = [await run('Your policies', own, trace, settings)];
  if (first && 'window' in own.policies[0]!) {
    const quota = `${first.limit}/${first.window}ms`;
    for (const name of settings.compare) {
      const plain = { ...settings, ban: '', wait: '' };
      lanes.push(await run(name, setUp([COMPARED[name](quota)], plain, log), trace, plain));
    }
  }
  const ends = lanes.flatMap(({ outcomes }) => outcomes.at(-1)?.end ?? 0);
  return { lanes, length: Math.max(1, settings.pattern === 'log' ? 0 : settings.seconds * 1000, ...ends) };
}

interface SetUp {
  readonly policies: readonly Policy[];
  readonly limiter: Limiter;
}

function setUp(texts: readonly string[], settings: Settings, log: AccessLog | undefined): SetUp {
  time.reset();
  const policies = texts.map((text) => parsePolicy(text));
  const start = settings.pattern === 'log' && log ? log.start : START;
  const ban = banOf(settings.ban);
  const limiter = createLimiter({
    name: 'playground',
    store: memoryStore({ clock: () => start + Math.floor(time.now), maxKeys: 1_000_000 }),
    policies,
    warnings: false,
    ...(ban && { ban }),
  });
  return { policies, limiter };
}

/** @throws Error for a text of another form */
export function banOf(text: string): BanOptions | undefined {
  if (text.trim() === '') return undefined;
  const [, after, within, length] = /^\s*(\d+) in (\S+) for (\S+)\s*$/.exec(text) ?? [];
  if (after === undefined)
    throw new Error(`ban: '${text}' is not readable. Write it like '5 in 1m for 10m'.`);
  return { after: Number(after), within, for: length };
}

/** The dimension of the tenants that share a policy's limit. */
export const shareOf = (policy: Policy): string | undefined => ('share' in policy ? policy.share : undefined);

/** The key of a client's requests. A tenant of a shared limit has all other keys in common with the other tenants. */
export function keyOf(policies: readonly Policy[], client: string): Key {
  const shares = policies.flatMap((policy) => shareOf(policy) ?? []);
  const dimensions = policies.flatMap(({ by }) => by ?? []);
  if (shares.length + dimensions.length === 0) return client;
  const common = shares.length > 0 ? 'everyone' : client;
  const named = (names: readonly string[], key: string) =>
    Object.fromEntries(names.map((name) => [name, key]));
  return { key: common, ...named(dimensions, common), ...named(shares, client) };
}

async function run(
  name: string,
  { policies, limiter }: SetUp,
  trace: readonly TracedRequest[],
  { wait, takes }: Settings,
): Promise<Lane> {
  time.reset();
  try {
    const send = (request: TracedRequest): Outcome | Promise<Outcome> => {
      const key = keyOf(policies, request.client);
      return wait.trim() === ''
        ? decideOn(limiter, key, request)
        : waitFor(limiter, key, request, wait.trim());
    };
    const outcomes = wait.trim() === '' ? inOrder(trace, send, takes) : await inLine(trace, send, takes);
    return laneOf(name, limiter, outcomes);
  } finally {
    await limiter.close();
    time.reset();
  }
}

type Send = (request: TracedRequest) => Outcome | Promise<Outcome>;

/** Each request is decided at once. */
function inOrder(trace: readonly TracedRequest[], send: Send, takes: number): Outcome[] {
  return trace.map((request) => {
    while (time.step(request.at));
    const outcome = send(request) as Outcome;
    releaseLater(outcome, takes);
    return outcome;
  });
}

/** Requests wait, so each event runs until nothing more happens at its time. */
async function inLine(trace: readonly TracedRequest[], send: Send, takes: number): Promise<Outcome[]> {
  const { port1, port2 } = new MessageChannel();
  /** The microtasks of an event are done when a task runs. */
  const settled = (): Promise<void> =>
    new Promise((resolve) => {
      Object.assign(port1, { onmessage: () => resolve() });
      port2.postMessage(0);
    });
  const outcomes: Promise<Outcome>[] = [];
  let open = 0;
  for (const request of trace) {
    while (time.step(request.at)) await settled();
    open += 1;
    const outcome = Promise.resolve(send(request)).finally(() => (open -= 1));
    outcomes.push(outcome);
    void outcome.then((done) => releaseLater(done, takes)).catch(() => {});
    await settled();
  }
  while (open > 0 && time.step(Infinity)) await settled();
  port1.close();
  return Promise.all(outcomes);
}

/** A request of a policy that counts slots holds its slots for a time. */
function releaseLater({ decision, end }: Outcome, takes: number): void {
  if (decision.allowed) time.at(end + takes, () => void decision.release());
}

function decideOn(limiter: Limiter, key: Key, request: TracedRequest): Outcome {
  const decision = limiter.decide(key) as Decision;
  return outcomeOf(request, decision, request.at + decision.delayMs);
}

async function waitFor(
  limiter: Limiter,
  key: Key,
  request: TracedRequest,
  timeout: string,
): Promise<Outcome> {
  try {
    return outcomeOf(request, await limiter.wait(key, { timeout }), time.now);
  } catch (error) {
    const { decision } = error as HeadgateError;
    if (!decision) throw error;
    return outcomeOf(request, decision, time.now);
  }
}

function outcomeOf(request: TracedRequest, decision: Decision, end: number): Outcome {
  const { allowed, retryAfterMs } = decision;
  const kind = !allowed ? 'denied' : end > request.at ? 'delayed' : 'admitted';
  const retryAt = allowed || retryAfterMs === undefined ? undefined : end + retryAfterMs;
  return { at: request.at, client: request.client, kind, end, retryAt, decision };
}

function laneOf(name: string, { policies: [first] }: Limiter, outcomes: readonly Outcome[]): Lane {
  const counts = { admitted: 0, delayed: 0, denied: 0 };
  const starts = new Map<string, number[]>();
  let longestRetry = 0;
  for (const { kind, end, retryAt = end, decision } of outcomes) {
    counts[kind] += 1;
    longestRetry = Math.max(longestRetry, retryAt - end);
    if (!decision.allowed) continue;
    const { key } = decision.policies[0] ?? decision;
    const list = starts.get(key);
    if (list) list.push(end);
    else starts.set(key, [end]);
  }
  for (const list of starts.values()) list.sort((a, b) => a - b);
  return { name, outcomes, counts, longestRetry, peak: first && peakOf(first, starts) };
}

/** The response to a request, as the adapters send it. */
export function responseOf({ decision }: Outcome): string {
  const { status, headers, body } = decision.allowed
    ? { status: 200, headers: rateLimitHeaders(decision), body: '' }
    : denial(decision);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status} ${TEXTS[status] ?? ''}`, ...lines, ...(body === '' ? [] : ['', body])].join(
    '\n',
  );
}

const TEXTS: Readonly<Record<number, string>> = {
  200: 'OK',
  403: 'Forbidden',
  429: 'Too Many Requests',
  503: 'Service Unavailable',
};
