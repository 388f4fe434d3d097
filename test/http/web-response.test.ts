// The ends of responses in web standards.
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { webResponse, WebReply } from 'headgate/http';
import { rateLimit } from 'headgate/web';

const encoder = new TextEncoder();

/** A body of the given parts, and a record of its reads and its cancellation. */
function bodyOf(parts: readonly (string | Error)[]) {
  const rest = [...parts];
  const seen = { read: 0, cancelled: false };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const part = rest.shift();
        if (part === undefined) return controller.close();
        if (part instanceof Error) return controller.error(part);
        seen.read++;
        controller.enqueue(encoder.encode(part));
      },
      cancel: () => void (seen.cancelled = true),
    },
    { highWaterMark: 0 },
  );
  return { body, seen };
}

const make = (init?: RequestInit) => new WebReply(new Request('http://127.0.0.1/', init));

/** A followed reply, and a record of its end. */
function followed(init?: RequestInit) {
  const reply = make(init);
  const ends: boolean[] = [];
  const stop = webResponse.onEnd(reply, (completed) => void ends.push(completed));
  return { reply, ends, stop };
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('The read did not fail.'),
    ({ message }: Error) => message,
  );

describe('a web-standard response', () => {
  it('has the fields of the limiters, and those of the handler', async () => {
    const reply = make();
    webResponse.setHeader(reply, 'RateLimit', '"a";r=1');
    expect(webResponse.getHeader(reply, 'ratelimit')).to.equal('"a";r=1');
    expect(webResponse.getHeader(reply, 'RateLimit-Policy')).to.equal(null);
    const ownResponse = new Response('text', {
      status: 201,
      headers: [
        ['Set-Cookie', 'a=1'],
        ['Set-Cookie', 'b=2'],
      ],
    });
    const response = await reply.finish(async () => ownResponse);
    expect(response).to.equal(ownResponse);
    expect(response.headers.get('RateLimit')).to.equal('"a";r=1');
    expect(response.headers.getSetCookie()).to.deep.equal(['a=1', 'b=2']);
    expect(reply.status).to.equal(201);
  });

  it('has the type that a handler set for its body', async () => {
    const limit = rateLimit({
      ...{ limit: 1, window: '1m', denyList: ['ada'], keyGenerator: () => 'ada' },
      handler: (_, reply) => {
        reply.body = JSON.stringify({ error: 'later' });
        reply.headers.set('content-type', 'application/json');
      },
    });
    const response = await limit(new Request('http://127.0.0.1/'), () => new Response());
    expect(response.headers.get('content-type')).to.equal('application/json');
    expect(await response.json()).to.deep.equal({ error: 'later' });
  });

  it('is none after an upgrade by the platform, which counts as a success', async () => {
    const limit = rateLimit({
      ...{ limit: 1, window: '1m', skipFailedRequests: true, warnings: false, keyGenerator: () => 'bun' },
    });
    const ask = limit((_: Request, upgrades: boolean) => (upgrades ? undefined : new Response('no')));
    const request = () => new Request('http://127.0.0.1/');
    expect(await ask(request(), true)).to.equal(undefined);
    expect((await ask(request(), true))?.status).to.equal(429);
  });

  it('has all cookies that a handler set on a denial', async () => {
    const reply = make();
    for (const cookie of ['a=1', 'b=2']) reply.headers.append('Set-Cookie', cookie);
    const response = await reply.finish(async () => reply.answer());
    expect(response.headers.getSetCookie()).to.deep.equal(['a=1', 'b=2']);
  });

  it('has all cookies of a handler that denies, beside those of others', async () => {
    const reply = make();
    for (const cookie of ['a=1', 'b=2']) reply.headers.append('Set-Cookie', cookie);
    const response = await reply.finish(async () => {
      const answer = reply.answer();
      answer.headers.append('Set-Cookie', 'c=3');
      return answer;
    });
    expect(response.headers.getSetCookie()).to.deep.equal(['a=1', 'b=2', 'c=3']);
  });

  it('has them, too, if its own fields cannot be changed', async () => {
    const reply = make();
    webResponse.setHeader(reply, 'RateLimit', '"a";r=1');
    const response = await reply.finish(async () => Response.redirect('http://127.0.0.1/', 302));
    expect([response.status, response.headers.get('RateLimit')]).to.deep.equal([302, '"a";r=1']);
  });

  it('ends when its body has been read, and none of it is read ahead', async () => {
    const { reply, ends } = followed();
    const { body, seen } = bodyOf(['a', 'b']);
    const response = await reply.finish(async () => new Response(body, { status: 203 }));
    expect(response.status).to.equal(203);
    const reader = response.body!.getReader();
    await reader.read();
    await reader.read();
    expect(seen.read).to.equal(2);
    expect(ends).to.deep.equal([]);
    expect((await reader.read()).done).to.equal(true);
    expect(ends).to.deep.equal([true]);
    expect(webResponse.hasEnded(reply)).to.equal(true);
  });

  it('is cut off if its body is cancelled, and the body is cancelled as well', async () => {
    const { reply, ends } = followed();
    const { body, seen } = bodyOf(['a', 'b']);
    const response = await reply.finish(async () => new Response(body));
    await response.body!.cancel();
    expect(ends).to.deep.equal([false]);
    expect(seen.cancelled).to.equal(true);
  });

  it('is cut off if its body fails', async () => {
    const { reply, ends } = followed();
    const { body } = bodyOf(['a', new Error('broken')]);
    const response = await reply.finish(async () => new Response(body));
    expect(await failureOf(response.text())).to.equal('broken');
    expect(ends).to.deep.equal([false]);
  });

  it('is cut off once if its client disconnects, whatever is read then', async () => {
    const client = new AbortController();
    const { reply, ends } = followed({ signal: client.signal });
    const { body } = bodyOf(['a']);
    const response = await reply.finish(async () => new Response(body));
    client.abort();
    expect(ends).to.deep.equal([false]);
    await response.text();
    expect(ends).to.deep.equal([false]);
  });

  it('has ended if its client had disconnected before', () => {
    expect(webResponse.hasEnded(make({ signal: AbortSignal.abort() }))).to.equal(true);
    expect(webResponse.hasEnded(make())).to.equal(false);
  });

  it('needs no signal, which some platforms’ requests do not have', async () => {
    const reply = new WebReply({ method: 'GET' });
    expect([webResponse.hasEnded(reply), webResponse.hasLeft!(reply)]).to.deep.equal([false, false]);
    const ends: boolean[] = [];
    webResponse.onEnd(reply, (completed) => void ends.push(completed));
    await reply.finish(async () => new Response(null));
    expect(ends).to.deep.equal([true]);
  });

  it('without a body ends at once', async () => {
    const { reply, ends } = followed();
    await reply.finish(async () => new Response(null, { status: 204 }));
    expect(ends).to.deep.equal([true]);
    expect(webResponse.getStatus(reply)).to.equal(204);
  });

  it('to HEAD also ends at once, because its body is not read', async () => {
    const { reply, ends } = followed({ method: 'HEAD' });
    const response = new Response('text');
    expect(await reply.finish(async () => response)).to.equal(response);
    expect(ends).to.deep.equal([true]);
  });

  it('stays unchanged if no limiter waits for its end', async () => {
    const { reply, stop } = followed();
    stop();
    const response = new Response('text');
    expect(await reply.finish(async () => response)).to.equal(response);
  });

  it('counts as status 500 if its handler fails, and rejects with the handler’s error', async () => {
    const { reply, ends } = followed();
    expect(await failureOf(reply.finish(() => Promise.reject(new Error('broken'))))).to.equal('broken');
    expect(ends).to.deep.equal([true]);
    expect(webResponse.getStatus(reply)).to.equal(500);
  });

  it('calls no listener that was removed', async () => {
    const { reply, ends, stop } = followed();
    stop();
    await reply.finish(async () => new Response(null));
    expect(ends).to.deep.equal([]);
  });
});

describe('a request that meets its limiter again, as in the loaders of a page', () => {
  const common = { limit: 1, window: '1m', clientIp: () => '192.0.2.1' } as const;
  const page = () => new Response('ok');
  const ask = () => new Request('http://127.0.0.1/');
  const remaining = async ({ limiter }: { limiter: Limiter }) => (await limiter.peek('192.0.2.1')).remaining;

  it('is denied again, with the same fields and body', async () => {
    const limit = rateLimit(common);
    await limit(ask(), page);
    const request = ask();
    const seen = async (response: Response) => [
      response.status,
      [...response.headers],
      await response.text(),
    ];
    const first = await seen(await limit(request, page));
    expect(first[0]).to.equal(429);
    expect(await seen(await limit(request, page))).to.deep.equal(first);
    const other = ask();
    const both = await Promise.all([limit(other, page), limit(other, page)]);
    expect(await Promise.all(both.map(seen))).to.deep.equal([first, first]);
  });

  it('is answered by the handler again', async () => {
    const limit = rateLimit({ ...common, handler: (_, reply) => void (reply.body = 'Later.') });
    await limit(ask(), page);
    const request = ask();
    for (let i = 0; i < 2; i++) expect(await (await limit(request, page)).text()).to.equal('Later.');
  });

  it('is charged once, even by an asynchronous key and at the same time', async () => {
    const limit = rateLimit({ ...common, limit: 2, clientIp: async () => '192.0.2.1' });
    const statuses = async (request: Request) =>
      (await Promise.all([1, 2, 3].map(() => limit(request, page)))).map(({ status }) => status);
    expect(await statuses(ask())).to.deep.equal([200, 200, 200]);
    expect(await remaining(limit)).to.equal(1);
    await statuses(ask());
    expect(await statuses(ask())).to.deep.equal([429, 429, 429]);
  });

  it('is decided anew after a failure, and not at all if it is skipped', async () => {
    const keys = [Promise.reject(new Error('away')), 'ada', 'bob'];
    const limit = rateLimit({ ...common, keyGenerator: async () => keys.shift(), warnings: false });
    const request = ask();
    const both = await Promise.allSettled([limit(request, page), limit(request, page)]);
    expect(both.map(({ status }) => status)).to.deep.equal(['rejected', 'fulfilled']);
    expect(keys).to.deep.equal(['bob']);
    const skipping = rateLimit({ ...common, skip: async () => true });
    const skipped = ask();
    await Promise.all([1, 2, 3].map(() => skipping(skipped, page)));
    expect(await remaining(skipping)).to.equal(1);
  });
});

describe('limiters of one request, one after the other', () => {
  it('each has its own response, and gives its slot back with it', async () => {
    const key = { keyGenerator: () => 'ada' };
    const first = rateLimit({ ...key, name: 'first', limit: 9, window: '1m' });
    const second = rateLimit({ ...key, name: 'second', algorithm: 'concurrency', limit: 1, lease: '1m' });
    for (let i = 0; i < 2; i++) {
      const request = new Request('http://127.0.0.1/');
      await first(request, () => new Response());
      const response = await second(request, () => new Response('ok'));
      expect(response.headers.get('RateLimit')).to.equal('"second";r=0');
      expect(await response.text()).to.equal('ok');
    }
  });
});
