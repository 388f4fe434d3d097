// The plugin of Fastify among other plugins.
import { expect } from 'chai';
import fastify from 'fastify';
import { createLimiter, memoryStore } from 'headgate';
import { dashboardPlugin } from 'headgate-dashboard/fastify';
import { tokenFields } from './servers.js';

describe('dashboardPlugin', () => {
  it('keeps the fields and cookies of hooks before and after it', async () => {
    const app = fastify();
    // As a plugin of sessions does.
    app.addHook('onSend', (_request, reply, _payload, done) => {
      reply.header('set-cookie', 'session=saved');
      done();
    });
    await app.register(dashboardPlugin, {
      ...{ prefix: '/limits', store: memoryStore() },
      preHandler: (_request, reply, done) => {
        reply.header('x-request-id', '1').header('set-cookie', 'user=renewed');
        done();
      },
    });
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    for (const path of [
      '/limits',
      '/limits/',
      '/limits/api/now',
      '/limits/api/nothing',
      '/limits/api/stream',
    ]) {
      for (const method of ['GET', 'HEAD']) {
        const stop = new AbortController();
        const { status, headers } = await fetch(url + path, { method, signal: stop.signal });
        expect(status, path).to.equal(path.endsWith('nothing') ? 404 : 200);
        expect(headers.get('x-request-id'), path).to.equal('1');
        const [renewed, ...others] = headers.getSetCookie();
        expect(renewed, path).to.equal('user=renewed');
        expect(others.at(-1), path).to.equal('session=saved');
        expect(others, path).to.have.length(path.startsWith('/limits/api') ? 1 : 2);
        expect(headers.get('cache-control'), path).to.equal('no-store, no-transform');
        stop.abort();
      }
    }
    app.server.closeAllConnections();
    await app.close();
  });

  it('serves the page below a prefix with parameters', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {} });
    const app = fastify();
    await app.register(dashboardPlugin, {
      ...{ prefix: '/:team/limits', store },
      actions: (request) => ({ by: (request.params as { team: string }).team }),
    });
    const url = `${await app.listen({ port: 0, host: '127.0.0.1' })}/abcdefgh/limits`;
    for (const path of ['', '/', '/api/now', '/api/log?since=1h'])
      expect((await fetch(url + path)).status, path).to.equal(200);
    const body = JSON.stringify({ action: 'ban', name: 'api', key: 'k', for: '1h', reason: 'test' });
    const init = { method: 'POST', headers: await tokenFields(url), body };
    expect((await fetch(`${url}/api/change`, init)).status).to.equal(200);
    expect((await limiter.peek('k')).reason).to.equal('banned');
    expect((await fetch(`${url}/api/nothing`)).status).to.equal(404);
    app.server.closeAllConnections();
    await app.close();
    await limiter.close();
  });
});
