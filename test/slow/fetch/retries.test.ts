// Retries of libraries that call by limitFetch: which failures a call survives, with Headgate and without it.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import { expect } from 'chai';
import got from 'got';
import { limitFetch, type LimitedFetch } from 'headgate/fetch';
import ky from 'ky';
import OpenAI from 'openai';

const FAULTS = ['429', '529', '503', '500', 'a broken connection'] as const;
type Fault = (typeof FAULTS)[number];

/** The attempts of a client during a failure that lasts for some attempts. */
interface Outcome {
  survives: boolean;
  /** The attempts that the server saw. */
  attempts: number;
}

const messages = [{ role: 'user' as const, content: 'hello' }];

/** Asks once, as docs/outbound.md sets the client up; without `call`, as the client is by itself. */
const clients: Record<string, (url: string, call: LimitedFetch | undefined) => Promise<unknown>> = {
  OpenAI: (baseURL, call) =>
    new OpenAI({ apiKey: 'k', baseURL, ...(call && { fetch: call }) }).chat.completions.create({
      ...{ model: 'm', messages },
    }),
  Anthropic: (baseURL, call) =>
    new Anthropic({ apiKey: 'k', baseURL, ...(call && { fetch: call }) }).messages.create({
      ...{ model: 'm', max_tokens: 5, messages },
    }),
  ky: (url, call) =>
    ky
      .create(call ? { fetch: call, timeout: false } : {})
      .get(url)
      .json(),
  got: (url, call) => {
    const beforeRequest = call && [
      ({ url: target }: { url?: string | URL | undefined }) =>
        call.schedule(() => {}, { key: new URL(target!).host }),
    ];
    return got
      .extend(beforeRequest ? { hooks: { beforeRequest } } : {})
      .get(url)
      .json();
  },
};

describe('retries of libraries through limitFetch', () => {
  let server: Server;
  let url: string;
  const plans = new Map<string, { fault: Fault; left: number; attempts: number }>();
  before(async () => {
    server = createServer((request, response) => {
      request.resume();
      const plan = plans.get(request.url!.split('/')[1]!)!;
      plan.attempts++;
      if (plan.left-- > 0) {
        if (plan.fault === 'a broken connection') return void request.socket.destroy();
        response.statusCode = Number(plan.fault);
        if (plan.fault !== '500') response.setHeader('retry-after', '0.02');
      }
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ choices: [], content: [] }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  async function ask(client: string, fault: Fault, times: number, call?: LimitedFetch): Promise<Outcome> {
    const id = `${client}-${fault}-${times}-${call ? 'limited' : 'alone'}`.replaceAll(' ', '');
    const plan = { fault, left: times, attempts: 0 };
    plans.set(id, plan);
    const survives = await clients[client]!(`${url}/${id}`, call).then(
      () => true,
      () => false,
    );
    return { survives, attempts: plan.attempts };
  }

  for (const client of Object.keys(clients)) {
    for (const times of [1, 2]) {
      it(`${client}, ${times} times in a row: survives what it survives alone; each attempt takes its turn`, async () => {
        const outcomes = await Promise.all(
          FAULTS.map(async (fault) => {
            const call = limitFetch(fetch, '50/1s');
            const alone = await ask(client, fault, times);
            const limited = await ask(client, fault, times, call);
            expect(call.stats.calls, fault).to.equal(limited.attempts);
            return [fault, { alone: alone.survives, limited: limited.survives }] as const;
          }),
        );
        const always = { alone: true, limited: true };
        const table = Object.fromEntries(FAULTS.map((fault) => [fault, always]));
        // ky and got do not retry a 529. With a wait it is a denial, after which limitFetch sends what is safe again.
        if (client === 'ky') table['529'] = { alone: false, limited: true };
        if (client === 'got') table['529'] = { alone: false, limited: false };
        expect(Object.fromEntries(outcomes)).to.deep.equal(table);
      });
    }
  }

  it('without the retries of the library, limitFetch alone survives no failure of a POST', async () => {
    const outcomes = await Promise.all(
      FAULTS.map(async (fault) => {
        const call = limitFetch(fetch, '50/1s');
        const id = `none-${fault}`.replaceAll(' ', '');
        plans.set(id, { fault, left: 1, attempts: 0 });
        const client = new OpenAI({ apiKey: 'k', baseURL: `${url}/${id}`, fetch: call, maxRetries: 0 });
        return client.chat.completions.create({ model: 'm', messages }).then(
          () => true,
          () => false,
        );
      }),
    );
    expect(outcomes).to.deep.equal(FAULTS.map(() => false));
  });
});
