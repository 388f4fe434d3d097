// Serves a drawn site, and records the decisions and the ends of its requests in order.
import type { IncomingHttpHeaders, Server, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, type Decision, type Limiter, type Store } from 'headgate';
import { optionsOf } from '../../oracle/program.js';
import { adapters, type Served, type TestOptions, type TestRequest } from '../apps.js';
import type { HttpLimiter, HttpSite } from './draw.js';

/** The server's record of a request. */
export interface Seen {
  readonly n: number;
  readonly decisions: { readonly limiter: number; readonly decision: Decision; readonly fields: Decision }[];
  /** `req.rateLimit` in the handler, if the request reached it. */
  handled?: { readonly rateLimit: Decision | undefined };
  ended?: { readonly completed: boolean; readonly status: number };
}

export type Event =
  | { readonly kind: 'decision'; readonly seen: Seen; readonly at: number }
  | { readonly kind: 'end'; readonly seen: Seen };

export interface Running {
  readonly served: Served;
  /** A limiter beside each limiter of the route, with the same quota. */
  readonly limiters: readonly Limiter[];
  readonly seen: ReadonlyMap<number, Seen>;
  readonly events: readonly Event[];
  readonly failures: readonly string[];
  close(): Promise<void>;
}

const numberOf = ({ 'x-n': n }: IncomingHttpHeaders) => Number(n);

const textOf = (headers: IncomingHttpHeaders, name: string) => headers[`x-${name}`] as string | undefined;

export function dimensionsOf({ policies, ban }: HttpLimiter): string[] {
  return [...new Set([...policies.map(({ by }) => by), ...(ban ? [ban.by] : [])])];
}

/** The options of an adapter for a drawn limiter, as functions of the request's fields. */
function adapterOptions(drawn: HttpLimiter): Record<string, unknown> {
  const { isAsync, wait, skipFailedRequests, skipSuccessfulRequests, refundAborted } = drawn;
  const later = <T>(of: (headers: IncomingHttpHeaders) => T) =>
    isAsync ? async ({ headers }: TestRequest) => of(headers) : ({ headers }: TestRequest): T => of(headers);
  const dimensions = dimensionsOf(drawn);
  const keys = dimensions.filter((by) => by !== 'key').map((by) => [by, later((of) => textOf(of, by))]);
  const tiers = Object.keys(drawn.tiers);
  return {
    ...(dimensions.includes('key') ? { keyGenerator: later((of) => textOf(of, 'key')) } : {}),
    ...(keys.length > 0 ? { keys: Object.fromEntries(keys) as object } : {}),
    cost: later((of) => costOf(drawn, textOf(of, 'cost'), textOf(of, 'costs'))),
    ...(tiers.length > 0 ? { tier: later((of) => tierOf(drawn, Number(textOf(of, 'tier')))) } : {}),
    ...(drawn.hasIds ? { requestId: later((of) => textOf(of, 'id')) } : {}),
    ...(wait === undefined ? {} : { wait }),
    ...{ skipFailedRequests, skipSuccessfulRequests, refundAborted },
  };
}

export const tierOf = ({ tiers }: HttpLimiter, n: number) => [undefined, ...Object.keys(tiers)][n];

export function costOf({ policies }: HttpLimiter, cost = '1', costs?: string) {
  if (costs === undefined) return Number(cost);
  const units = costs.split(',').map(Number);
  return Object.fromEntries(policies.map(({ name }, i) => [name, units[i]!]));
}

/** @param reached called when a request is in its handler */
export async function serve(site: HttpSite, store: Store, reached: (n: number) => void): Promise<Running> {
  const seen = new Map<number, Seen>();
  const events: Event[] = [];
  const failures: string[] = [];
  const common = { store, warnings: false, timeout: '20s', onStoreError: 'throw' };
  const limiters: Limiter[] = [];
  try {
    for (const [i, drawn] of site.limiters.entries())
      limiters.push(createLimiter({ ...optionsOf(`l${i}`, drawn), ...common } as never));
    const options = site.limiters.map((drawn, i) => ({
      ...{ ...optionsOf(`l${i}`, drawn), ...common, ...adapterOptions(drawn) },
      onDecision: (decision: Decision, { headers }: TestRequest) => {
        const own = seen.get(numberOf(headers))!;
        const { policies, costs, policy, reason, repeated } = decision;
        // The charge before the end of the response, which may have been before.
        const charged = reason === undefined && !repeated && policy !== undefined ? costs[policy]! : 0;
        events.push({ kind: 'decision', seen: own, at: own.decisions.length });
        own.decisions.push({ limiter: i, decision, fields: { ...decision, policies, costs, charged } });
      },
    }));
    const served = await adapters[site.adapter]!.serve({
      limiters: options as unknown as TestOptions[],
      before: (res) => watch(res, seen, events),
      failed: (error) => void failures.push(String(error.stack ?? error)),
      answer: async ({ headers, rateLimit }) => {
        const n = numberOf(headers);
        seen.get(n)!.handled = { rateLimit };
        reached(n);
        await sleep(Number(textOf(headers, 'takes')));
        const status = Number(textOf(headers, 'status'));
        return { status, body: textOf(headers, 'long') ? unfinished() : 'ok' };
      },
    });
    const close = async () => {
      await served.close();
      for (const limiter of limiters) await limiter.close();
    };
    return { served, limiters, seen, events, failures, close };
  } catch (error) {
    for (const limiter of limiters) await limiter.close();
    throw error;
  }
}

function watch(res: ServerResponse, seen: Map<number, Seen>, events: Event[]): void {
  const { socket, headers } = res.req;
  // On a busy machine, Node would close an idle connection while the client sends the next request on it.
  (socket as typeof socket & { server: Server }).server.keepAliveTimeout = 120_000;
  const own: Seen = { n: numberOf(headers), decisions: [] };
  seen.set(own.n, own);
  const end = (completed: boolean) => {
    if (own.ended) return;
    own.ended = { completed, status: res.statusCode };
    events.push({ kind: 'end', seen: own });
  };
  res.once('finish', () => end(!socket.destroyed));
  res.once('close', () => end(false));
}

/** A body that begins, and never ends. */
function unfinished(): PassThrough {
  const body = new PassThrough();
  body.write('begun');
  return body;
}
