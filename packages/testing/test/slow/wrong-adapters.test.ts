// Adapters for Express with one fault each, and the check that catches the fault.
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import express, { type Request, type Response } from 'express';
import {
  createLimiter,
  memoryStore,
  type CreateLimiterOptions,
  type DeniedDecision,
  type Store,
} from 'headgate';
import { createFlow, nodeResponse, type Framework, type Trail } from 'headgate/http';
import { adapterChecks, CheckError, type AdapterUnderTest, type App } from 'headgate-testing';
import {
  adapters,
  type TestOptions,
  type TestRequest,
  type TestResponse,
} from '../../../../test/http/apps.js';

type TestApp = App<TestRequest, TestResponse>;
type Adapter = AdapterUnderTest<TestRequest, TestResponse>;

const { serve } = adapters['Express 5']!;
const right: Adapter = { start: ({ limiters, answer }) => serve({ limiters, answer }), patience: 300 };

/** The adapter for Express with a change to the app before it is served. */
const but = (change: (app: TestApp) => TestApp): Adapter => ({
  ...right,
  start: (app) => right.start(change(app)),
});

/** A separate adapter for Express with some other methods in its framework. */
function byFramework(make: () => Partial<Framework<Request, Response>>): Adapter {
  return {
    ...right,
    async start({ limiters, answer }) {
      const app = express();
      const framework: Framework<Request, Response> = { ...nodeResponse, ip: (req) => req.ip, ...make() };
      for (const options of limiters) {
        const flow = createFlow(framework, options, 'rateLimit');
        app.use((req, res, next) => flow.run(req, res, next));
      }
      app.use(async (req, res) => {
        const { body } = await answer(req);
        res.send(body);
      });
      const server = app.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const close = () => {
        server.closeAllConnections();
        server.close();
      };
      return { url: `http://127.0.0.1:${port}/`, close };
    },
  };
}

const isPost = (request: TestRequest) => (request as unknown as Request).method === 'POST';

/** An adapter that ignores an option. */
const without = (option: string) =>
  but(({ limiters, answer }) => ({
    limiters: limiters.map(
      (options) =>
        Object.fromEntries(Object.entries(options).filter(([name]) => name !== option)) as TestOptions,
    ),
    answer,
  }));

const ANSWERS = 'adapter, answers';
const REQUESTS = 'adapter, requests';
const STACKED = 'adapter, several limiters on one route';
const OUTCOMES = 'adapter, outcomes';

/** Per option, a check that fails if an adapter ignores the option. */
const OPTIONS: Readonly<Record<string, readonly [suite: string, check: string]>> = {
  keyGenerator: [
    REQUESTS,
    'keyGenerator (sync): undefined does not limit, another value than a string fails',
  ],
  ipv6Subnet: [REQUESTS, 'the key is the network of the length ipv6Subnet'],
  cost: [ANSWERS, 'a cost that can never be admitted: no Retry-After, but the reason'],
  skip: [REQUESTS, 'skip (async)'],
  enabled: [REQUESTS, 'enabled: a request is limited if it is true at that moment'],
  partitionKey: [REQUESTS, 'partitionKey: the header fields distinguish clients without naming them'],
  jitter: [REQUESTS, 'jitter: Retry-After is later by up to that much, never earlier; no other field is'],
  allowList: [REQUESTS, 'allowList and denyList by keys and by function (sync)'],
  denyList: [REQUESTS, 'denyList answers 403, before allowList, and charges nothing'],
  ban: [ANSWERS, 'a ban: 429 with its problem type, as long as it lasts'],
  shadow: [REQUESTS, 'a shadow decides and reports, and shows the client nothing'],
  headers: [ANSWERS, 'header fields: draft-7'],
  statusCode: [REQUESTS, 'statusCode'],
  handler: [REQUESTS, 'handler answers instead, with status and header fields set'],
  onDecision: [REQUESTS, 'onDecision receives every decision and its request'],
  onStoreError: [ANSWERS, 'a store that fails: onStoreError decides between 503, 500 and going on'],
  skipFailedRequests: [OUTCOMES, 'skipFailedRequests gives back for 500, and not for 200'],
  skipSuccessfulRequests: [OUTCOMES, 'skipSuccessfulRequests gives back for 200, and not for 500'],
  requestWasSuccessful: [OUTCOMES, 'requestWasSuccessful (sync)'],
  refundAborted: [OUTCOMES, 'refundAborted gives the cost back if the response is cut off'],
  maxWaiting: [OUTCOMES, 'at most maxWaiting requests are held; others get 503'],
};

/** Other faults. */
const FAULTS: Readonly<Record<string, Adapter & { caughtBy: readonly [suite: string, check: string] }>> = {
  'only the first limiter counts': {
    ...but(({ limiters, answer }) => ({ limiters: limiters.slice(0, 1), answer })),
    caughtBy: [STACKED, 'they append to lists, and single fields keep the tightest quota'],
  },
  'the last limiter comes first': {
    ...but(({ limiters, answer }) => ({ limiters: limiters.toReversed(), answer })),
    caughtBy: [STACKED, 'they append to lists, and single fields keep the tightest quota'],
  },
  'slots are never given back': {
    ...right,
    createStore: (clock) => neverReleasing(memoryStore({ clock })),
    caughtBy: [OUTCOMES, 'a slot is given back exactly once'],
  },
  'the route does not see the decision': {
    ...right,
    decisionOf: () => undefined,
    caughtBy: [REQUESTS, 'the decision is on the request'],
  },
  'all accounts have one key': {
    ...but(({ limiters, answer }) => ({
      limiters: limiters.map((options) =>
        options.keys ? { ...options, keys: { account: () => 'one' } } : options,
      ),
      answer,
    })),
    caughtBy: [REQUESTS, 'keys (sync): policies count the key of their dimension, if the request has one'],
  },
  'POST is not limited': {
    ...but(({ limiters, answer }) => ({
      limiters: limiters.map((options) => ({ skip: (request) => isPost(request), ...options })),
      answer,
    })),
    caughtBy: [ANSWERS, 'all methods are limited, and share the quota'],
  },
  'the handler runs twice': {
    ...but(({ limiters, answer }) => ({
      limiters,
      answer: async (request) => {
        await answer(request);
        return answer(request);
      },
    })),
    caughtBy: [ANSWERS, 'requests in one packet: exactly the limit goes on, and each gets its own remaining'],
  },
  'only the latest limiter learns that the response has ended': {
    ...byFramework(() => {
      const latest = new WeakMap<ServerResponse, (completed: boolean) => void>();
      return {
        onEnd(res, ended) {
          const first = !latest.has(res);
          latest.set(res, ended);
          return first
            ? nodeResponse.onEnd(res, (completed) => latest.get(res)!(completed))
            : () => undefined;
        },
      };
    }),
    caughtBy: [STACKED, 'all of them learn that the response has ended'],
  },
  'the route sees the decision of the first limiter': {
    ...byFramework(() => {
      const trails = new WeakMap<object, Trail>();
      return {
        trail: (request) => trails.get(request),
        keep(request, trail) {
          trails.set(request, trail);
          Object.assign(request, { rateLimit: request.rateLimit ?? trail.decision });
        },
      };
    }),
    caughtBy: [STACKED, 'the decision of the latest one is on the request'],
  },
  'a denied request hangs': {
    ...right,
    async start({ limiters: [options] }) {
      const limiter = createLimiter(options as CreateLimiterOptions);
      const server = createServer((_request, response) => {
        void limiter.consume('all').then(({ allowed }) => allowed && response.end('ok'));
      });
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const { port } = server.address() as AddressInfo;
      const close = () => {
        server.closeAllConnections();
        server.close();
      };
      return { url: `http://127.0.0.1:${port}/`, close };
    },
    caughtBy: [ANSWERS, 'after a denial, requests go on at the second of Retry-After, and not before'],
  },
  'nothing limits': {
    ...but(({ answer }) => ({ limiters: [], answer })),
    caughtBy: [ANSWERS, 'after a denial, requests go on at the second of Retry-After, and not before'],
  },
};

function neverReleasing(store: Store): Store {
  return {
    decide: (query) => store.decide(query),
    adjust: (change) => store.adjust(change),
    lease: ({ action }) => action === 'release',
    reset: (subject) => store.reset(subject),
    ban: (subject, duration) => store.ban(subject, duration),
  };
}

async function expectCaught(adapter: Adapter, [suite, name]: readonly [string, string]): Promise<void> {
  const check = adapterChecks(adapter).find((each) => each.suite === suite && each.name === name);
  const error: unknown = await check!.run().then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).to.be.instanceOf(CheckError);
  expect((error as CheckError).actual).to.not.deep.equal((error as CheckError).expected);
  expect((error as CheckError).message)
    .to.include(`${suite}: ${name}\n`)
    .and.match(/expected .+, got /s);
}

describe('wrong adapters', () => {
  for (const [option, caughtBy] of Object.entries(OPTIONS))
    it(`an adapter without ${option}: caught by ${caughtBy.join(': ')}`, () =>
      expectCaught(without(option), caughtBy));

  for (const [fault, { caughtBy, ...adapter }] of Object.entries(FAULTS))
    it(`${fault}: caught by ${caughtBy.join(': ')}`, () => expectCaught(adapter, caughtBy));
});

describe('an adapter', () => {
  const find = (adapter: Adapter, [suite, name]: readonly [string, string]) =>
    adapterChecks(adapter).find((each) => each.suite === suite && each.name === name)!;

  it('that hangs is reported after the patience of the checks', async () => {
    const hanging = FAULTS['a denied request hangs']!;
    const error: unknown = await find(hanging, hanging.caughtBy)
      .run()
      .catch((reason: unknown) => reason);
    expect((error as Error).message).to.include('an answer within 300 ms');
  });

  it('is right, too, if its server sends bodies in chunks', async () => {
    const inChunks = (response: ServerResponse) => {
      const set = response.setHeader.bind(response);
      response.setHeader = (name, value) => (/^content-length$/i.test(name) ? response : set(name, value));
      response.removeHeader('Content-Length');
    };
    const start = ({ limiters, answer }: TestApp) => serve({ limiters, answer, before: inChunks });
    const check = [ANSWERS, 'a denial has Retry-After, problem details, and must not be cached'] as const;
    await find({ ...right, start }, check).run();
  });

  it('whose responses have no method send gets an error that names the option respond', async () => {
    const ofKoa: Adapter = {
      ...right,
      start: ({ limiters, answer }) => {
        const options = limiters.map(({ handler, ...rest }) => ({
          ...rest,
          ...(handler
            ? {
                handler: (request: TestRequest, _response: TestResponse, decision: DeniedDecision) =>
                  handler(request, {} as TestResponse, decision),
              }
            : {}),
        }));
        return serve({ limiters: options, answer });
      },
    };
    const error = await find(ofKoa, OPTIONS.handler!)
      .run()
      .catch((reason: unknown) => reason);
    expect((error as Error).message).to.include('Pass the option respond to adapterChecks');
  });
});
