import type { Policy } from 'headgate';
import { expectEqual, expectFields } from '../expect.js';
import type { Answer } from './client.js';
import {
  AWAY,
  begun,
  LATER,
  minute,
  storeBut,
  type AdapterLab,
  type AdapterSuite,
  type AppAnswer,
  type Options,
} from './lab.js';

/** The charge after the response has ended. */
export function outcomesOf(suite: AdapterSuite): void {
  refunds(suite);
  slots(suite);
  turns(suite);
  lines(suite);
}

const answered = (status: number) => ({ headers: { 'x-status': String(status) } });

/** The route answers with the status in the request's header field. */
const asAsked = (lab: AdapterLab) => (request: unknown) => ({
  status: Number(lab.headerOf(request, 'x-status') ?? 200),
});

/** Waits, because a refund reaches the store after the response. */
async function untilRemaining(
  lab: AdapterLab,
  expected: number,
  policies = [minute(expected)],
): Promise<void> {
  const limiter = lab.limiter({ policies });
  await lab.until(`${expected} units are left`, async () => {
    const { remaining } = await limiter.peek('127.0.0.1');
    return remaining === expected;
  });
}

function refunds(suite: AdapterSuite): void {
  for (const [option, back, charged] of [
    ['skipFailedRequests', 400, 399],
    ['skipFailedRequests', 500, 200],
    ['skipSuccessfulRequests', 399, 400],
    ['skipSuccessfulRequests', 200, 500],
  ] as const)
    suite.add(`${option} gives back for ${back}, and not for ${charged}`, async (lab) => {
      await lab.serve({ policies: [minute(2)], [option]: true }, asAsked(lab));
      for (let i = 0; i < 3; i++) {
        await lab.expectStatuses('responses that give back', [back], answered(back));
        await untilRemaining(lab, 2);
      }
      await lab.expectStatuses('responses that do not', [charged, charged, 429], answered(charged));
    });

  for (const [title, wrap] of Object.entries(LATER))
    suite.add(`requestWasSuccessful (${title})`, async (lab) => {
      const requestWasSuccessful: Options['requestWasSuccessful'] = (_request, response) =>
        wrap(lab.statusOf(response) === 404);
      const options = { policies: [minute(1)], skipFailedRequests: true, requestWasSuccessful };
      await lab.serve(options, asAsked(lab));
      await lab.expectStatuses('a failure', [200], answered(200));
      await untilRemaining(lab, 1);
      await lab.expectStatuses('a success', [404, 429], answered(404));
    });

  suite.add('refundAborted gives the cost back if the response is cut off', async (lab) => {
    const body = begun();
    await lab.serve({ policies: [minute(1)], refundAborted: true }, () => ({ body }));
    await (
      await leaving(lab)
    )();
    await untilRemaining(lab, 1);
    body.destroy();
  });

  suite.add('the route settles the real cost of a request', async (lab) => {
    await lab.serve({ policies: [minute(10)], cost: 5 }, async (request): Promise<AppAnswer> => {
      await lab.decisionOf(request)!.settle(Number(lab.headerOf(request, 'x-actual')));
      return {};
    });
    const actual = (units: string) => ({ headers: { 'x-actual': units } });
    await lab.expectRemaining('of which 1 is charged at last', 5, actual('1'));
    await lab.expectRemaining('of which 9 are charged at last', 4, actual('9'));
    await lab.expectStatuses('a request for more than is left', [429]);
  });

  suite.add('the route settles the real cost of a request for one policy', async (lab) => {
    const policies = [minute(3, 'requests'), minute(10, 'tokens')];
    await lab.serve({ policies, cost: { tokens: 8 } }, async (request): Promise<AppAnswer> => {
      await lab.decisionOf(request)!.settle({ tokens: 1 });
      return {};
    });
    await lab.expectStatuses('three requests of 1 token at last, and a fourth', [200, 200, 200, 429]);
  });

  suite.add('a give-back that fails does not fail the request', async (lab) => {
    const [store, policies] = [storeBut(lab, AWAY), [minute(9), { ...slot, limit: 9 }]];
    await lab.serve({ policies, store, skipSuccessfulRequests: true });
    // After five failed calls, which a slow machine could spread over 100 ms, the store would count as down.
    await lab.expectStatuses('two requests', [200, 200]);
  });
}

const slot = { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m' } as const;

/** A route whose first answer ends with `body`. */
function firstGoesOn() {
  const body = begun();
  let first = true;
  const answer = (): AppAnswer => (first ? ((first = false), { body }) : {});
  return { body, answer };
}

/** A client whose answer has begun. @returns makes the client leave */
async function leaving(lab: AdapterLab): Promise<() => Promise<unknown>> {
  const leave = new AbortController();
  const response = await lab.begin(leave.signal);
  return () => {
    leave.abort();
    return response.text().catch(() => {});
  };
}

const untilFree = (lab: AdapterLab) =>
  lab.until('the slot is free again', async () => (await lab.get()).status === 200);

function slots(suite: AdapterSuite): void {
  suite.add('a slot is held until the response is finished', async (lab) => {
    const { body, answer } = firstGoesOn();
    await lab.serve({ policies: [slot] }, answer);
    const response = await lab.begin();
    const fields = { ratelimit: '"slots";r=0', 'ratelimit-policy': '"slots";q=1;qu="concurrent-requests"' };
    expectFields('the header fields', Object.fromEntries(response.headers), fields);
    const headers = { 'retry-after': '60', ratelimit: '"slots";r=0;t=60' };
    await lab.expect('a request meanwhile', { status: 429, headers });
    body.end('done');
    await response.text();
    await untilFree(lab);
  });

  suite.add('a slot is held until the connection is closed', async (lab) => {
    const { body, answer } = firstGoesOn();
    await lab.serve({ policies: [slot] }, answer);
    const leave = await leaving(lab);
    await lab.expectStatuses('a request meanwhile', [429]);
    await leave();
    await untilFree(lab);
    body.destroy();
  });

  suite.add('a slot is given back exactly once', async (lab) => {
    const policies = [{ ...slot, limit: 2 }];
    await lab.serve({ policies });
    for (let i = 0; i < 5; i++) {
      await lab.expectStatuses('a request', [200]);
      await untilRemaining(lab, 2, policies);
    }
  });

  suite.add('a slot is renewed while the response takes longer than the lease', async (lab) => {
    const { body, answer } = firstGoesOn();
    const lease = 200;
    let renewals = 0;
    const store = storeBut(lab, {
      lease: async (change) => {
        const held = await lab.store.lease(change);
        renewals += 1;
        return held;
      },
    });
    await lab.serve({ policies: [{ ...slot, lease }], store }, answer);
    const response = await lab.begin();
    // Only here does the store's time pass. At least one of two renewals that end from now on has also begun since.
    for (let i = 0; i < 4; i++) {
      lab.clock.now += lease / 2;
      const before = renewals;
      await lab.until('the slot is renewed twice', () => renewals >= before + 2);
    }
    await lab.expectStatuses('a request after two leases', [429]);
    body.end();
    await response.text();
    await untilFree(lab);
  });
}

const held = { algorithm: 'leaky-bucket', limit: 1, window: '1m', burst: 1, maxDelay: '5m' } as const;

function turns(suite: AdapterSuite): void {
  suite.add(
    'a leaky bucket holds requests until their turn, and denies requests that would wait too long',
    async (lab) => {
      const arrived: number[] = [];
      const paced: Policy = { ...held, limit: 20, window: '1s', maxDelay: '150ms' };
      await lab.serve({ policies: [paced] }, () => (arrived.push(performance.now()), {}));
      const start = performance.now();
      // All requests arrive at the same store time, because the store's clock stands still.
      const answers = await Promise.all(Array.from({ length: 8 }, () => lab.get()));
      const statuses = answers.map(({ status }) => status).sort();
      expectEqual('the statuses', statuses, [200, 200, 200, 200, 429, 429, 429, 429]);
      const early = arrived.filter((at, i) => at - start < 50 * i);
      expectEqual('requests that went on before their turn', early.length, 0);
    },
  );

  suite.add('the turn of a client that leaves is given back, and the route does not run', async (lab) => {
    let asked = 0;
    await lab.serve({ policies: [held] }, () => (asked++, {}));
    await lab.expectStatuses('the first request', [200]);
    const leave = await turnTaken(lab);
    await leave();
    await untilAhead(lab, 1);
    expectEqual('requests that went on', asked, 1);
  });

  suite.add('at most maxWaiting requests are held; others get 503', async (lab) => {
    await lab.serve({ policies: [held], maxWaiting: 1 });
    await lab.expectStatuses('the first request', [200]);
    const leave = await turnTaken(lab);
    await lab.expect('one more', noRoom('120'));
    await untilAhead(lab, 2);
    await leave();
  });
}

const noRoom = (wait: string) => ({
  status: 503,
  headers: { 'retry-after': wait, 'cache-control': 'no-store' },
  problem: { status: 503 },
});

/** Waits until requests have taken the turns of `minutes` minutes. */
async function untilAhead(lab: AdapterLab, minutes: number): Promise<void> {
  const limiter = lab.limiter(held);
  await lab.until(`the turns of ${minutes} requests are taken`, async () => {
    const { resetAfterMs } = await limiter.peek('127.0.0.1');
    return resetAfterMs === minutes * 60_000;
  });
}

/** A client that waits for the second turn. @returns makes the client leave */
async function turnTaken(lab: AdapterLab): Promise<() => Promise<unknown>> {
  const leave = new AbortController();
  const gone = lab.get({ signal: leave.signal }).catch(() => {});
  await untilAhead(lab, 2);
  return () => (leave.abort(), gone);
}

/** A limiter of one slot, whose first request lasts until `body` ends. Later requests wait, at most two per key. */
async function queued(lab: AdapterLab, wait: string) {
  const { body, answer } = firstGoesOn();
  const limiter = lab.limiter({ policies: [slot], maxWaiting: 10, maxWaitingPerKey: 2 });
  const served: (string | undefined)[] = [];
  await lab.serve({ limiter, wait, keyGenerator: lab.keyBy('x-key') }, (request) => {
    served.push(lab.headerOf(request, 'x-name'));
    return answer();
  });
  const ask = (name: string, key = 'a', signal?: AbortSignal): Promise<Answer> => {
    const answer = lab.get({ headers: { 'x-name': name, 'x-key': key }, ...(signal && { signal }) });
    // A failed check does not await the answer.
    answer.catch(() => {});
    return answer;
  };
  const untilWaiting = (n: number) => lab.until(`${n} requests wait`, () => limiter.gauges.waiting === n);
  const first = ask('first');
  await lab.until('the first request goes on', () => served.length === 1);
  return { limiter, served, ask, untilWaiting, first, end: () => body.end() };
}

function lines(suite: AdapterSuite): void {
  suite.add(
    'with `wait`, requests of a key are served in order of arrival, and keys do not wait for each other',
    async (lab) => {
      const { limiter, served, ask, untilWaiting, first, end } = await queued(lab, '1m');
      const second = ask('second');
      await untilWaiting(1);
      const third = ask('third');
      await untilWaiting(2);
      expectEqual('the status of another key', (await ask('other', 'b')).status, 200);
      end();
      for (const each of [first, second, third]) expectEqual('a status', (await each).status, 200);
      expectEqual('the requests that went on', served, ['first', 'other', 'second', 'third']);
      await lab.until('the slot is free again', async () => (await limiter.peek('a')).allowed);
    },
  );

  suite.add('with `wait`, a client that leaves loses its place, and the route does not run', async (lab) => {
    const { served, ask, untilWaiting, first, end } = await queued(lab, '1m');
    const leave = new AbortController();
    const gone = ask('gone', 'a', leave.signal).catch(() => {});
    await untilWaiting(1);
    const next = ask('next');
    await untilWaiting(2);
    leave.abort();
    await gone;
    await untilWaiting(1);
    end();
    expectEqual('the statuses', [(await first).status, (await next).status], [200, 200]);
    expectEqual('the requests that went on', served, ['first', 'next']);
  });

  suite.add('with `wait`, a request that finds no room gets 503 with Retry-After', async (lab) => {
    const { served, ask, untilWaiting, first, end } = await queued(lab, '1m');
    const waiting = [ask('second'), ask('third')];
    await untilWaiting(2);
    await lab.expect('a fourth', noRoom('60'), { headers: { 'x-name': 'fourth', 'x-key': 'a' } });
    expectEqual('the requests that went on', served, ['first']);
    end();
    await Promise.all([first, ...waiting]);
  });

  suite.add(
    'with `wait`, a request that is not admitted in time gets 429, at once if that is certain',
    async (lab) => {
      const { ask, first, end } = await queued(lab, '30ms');
      const late = await ask('late');
      expectEqual('the status after a wait in vain', late.status, 429);
      expectFields('its header fields', late.headers, { 'retry-after': '60', ratelimit: '"slots";r=0;t=60' });
      end();
      await first;
      await lab.close();
      await lab.renew();
      await lab.serve({ ...minute(1), wait: '59s' });
      await lab.expectStatuses('requests of which the second would wait a minute', [200, 429]);
    },
  );
}
