// Readers that leave while the server still looks for the answer.
import { once } from 'node:events';
import { createServer, get, type ServerResponse } from 'node:http';
import { connect, createServer as createServer2 } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { memoryStore } from 'headgate';
import { send } from '../src/node.js';
import { Poller } from '../src/poller.js';
import { frameworks } from './servers.js';

for (const [name, start] of Object.entries(frameworks))
  it(`dashboard on ${name}: a reader that left before the stream's answer is not a viewer`, async () => {
    const { watch } = Poller.prototype;
    let viewers = 0;
    let watched = 0;
    Poller.prototype.watch = function (listener) {
      watched++;
      viewers++;
      const end = watch.call(this, listener);
      return () => {
        viewers--;
        end();
      };
    };
    let admit = (_operator: object): void => {};
    const operator = new Promise<object>((resolve) => (admit = resolve));
    const site = await start({ store: memoryStore(), operator });
    try {
      const asked = get(`${site.url}api/stream`).on('error', () => {});
      const [, res] = (await once(site.server, 'request')) as [unknown, ServerResponse];
      const closed = once(res, 'close');
      asked.destroy();
      await closed;
      admit({ by: 'ada' });
      await sleep(50);
      expect([watched, viewers]).to.deep.equal([1, 0]);
      // A reader that stays is a viewer, until the connection ends.
      const kept = get(`${site.url}api/stream`).on('error', () => {});
      const [response] = (await once(kept, 'response')) as [NodeJS.ReadableStream];
      await once(response, 'data');
      expect([watched, viewers]).to.deep.equal([2, 1]);
      kept.destroy();
      while (viewers > 0) await sleep(5);
    } finally {
      Poller.prototype.watch = watch;
      await site.close();
    }
  });

describe('an answer to a client that has left', () => {
  /** Answers with a stream after the client has left. @returns whether the stream was cancelled */
  async function isCancelled(res: ServerResponse): Promise<boolean> {
    let cancelled = false;
    send(new Response(new ReadableStream({ cancel: () => void (cancelled = true) })), res);
    await sleep(10);
    return cancelled;
  }

  it('ends its stream', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const asked = get({ port: (server.address() as AddressInfo).port }).on('error', () => {});
    const [, res] = (await once(server, 'request')) as [unknown, ServerResponse];
    asked.destroy();
    await once(res, 'close');
    expect(await isCancelled(res)).to.equal(true);
    server.close();
  });

  it('ends its stream on HTTP/2', async () => {
    const server = createServer2().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const asked = client.request().on('error', () => {});
    const [, res] = (await once(server, 'request')) as [unknown, ServerResponse];
    asked.close(8);
    await once(res, 'close');
    expect(await isCancelled(res)).to.equal(true);
    client.destroy();
    server.close();
  });
});
