// Libraries with a parameter for fetch, and a library without.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import axios from 'axios';
import { expect } from 'chai';
import got from 'got';
import { limitFetch, type LimitedFetch } from 'headgate/fetch';
import ky from 'ky';
import OpenAI from 'openai';
import { Agent, request } from 'undici';

describe('libraries that call by limitFetch', () => {
  let server: Server;
  let url: string;
  before(async () => {
    server = createServer((request, response) => {
      request.resume();
      response.setHeader('content-type', 'application/json');
      const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'hi' } }];
      response.end(JSON.stringify({ ok: true, choices, content: [{ type: 'text', text: 'hi' }] }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const messages = [{ role: 'user' as const, content: 'hello' }];
  const libraries: Record<string, (call: LimitedFetch) => () => Promise<unknown>> = {
    axios: (call) => {
      const client = axios.create({ adapter: 'fetch', env: { fetch: call } });
      return async () => ((await client.get(url)).data as { ok: boolean }).ok;
    },
    ky: (call) => {
      const client = ky.create({ fetch: call, timeout: false });
      return async () => (await client.post(url, { json: { a: 1 } }).json<{ ok: boolean }>()).ok;
    },
    got: (call) => {
      const client = got.extend({
        hooks: { beforeRequest: [({ url }) => call.schedule(() => {}, { key: new URL(url!).host })] },
      });
      return async () => (await client(url).json<{ ok: boolean }>()).ok;
    },
    undici: (call) => {
      const dispatcher = new Agent().compose(call.interceptor);
      return async () => {
        const { body } = await request(url, { dispatcher });
        return ((await body.json()) as { ok: boolean }).ok;
      };
    },
    OpenAI: (call) => {
      const client = new OpenAI({ apiKey: 'k', baseURL: url, fetch: call });
      return async () =>
        (await client.chat.completions.create({ model: 'm', messages })).choices[0]!.message.content === 'hi';
    },
    Anthropic: (call) => {
      const client = new Anthropic({ apiKey: 'k', baseURL: url, fetch: call });
      return async () =>
        (await client.messages.create({ model: 'm', max_tokens: 5, messages })).content.length === 1;
    },
  };
  for (const [name, by] of Object.entries(libraries)) {
    it(name, async () => {
      const call = limitFetch(fetch, '5/100ms');
      const ask = by(call);
      const began = performance.now();
      expect(await Promise.all([ask(), ask(), ask(), ask(), ask(), ask()])).to.deep.equal(
        Array(6).fill(true),
      );
      // Five turns of 20 ms lie between the first and the last.
      expect(performance.now() - began).to.be.above(95);
      expect(call.stats.calls).to.equal(6);
    });
  }
});
