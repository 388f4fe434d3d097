// A user's worker for Cloudflare: limiters are made while it loads, and each path is limited by another one. `REST_URL` and `REST_TOKEN` are
// defined when the worker is bundled.
import { createLimiter, memoryStore } from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { limitFetch } from 'headgate/fetch';
import { rateLimit as honoLimit } from 'headgate/hono';
import { clientKey, denial, rateLimitHeaders } from 'headgate/http';
import { redisStore, upstashRedis } from 'headgate/upstash';
import { rateLimit as webLimit } from 'headgate/web';
import { Hono } from 'hono';

const quota = { algorithm: 'fixed-window', limit: 2, window: '1m' };
const store = memoryStore();
const ok = () => new Response('ok');
const clientIp = (request) => request.headers.get('cf-connecting-ip') ?? undefined;

const app = new Hono();
app.use('/hono', honoLimit({ ...quota, clientIp: (c) => c.req.header('cf-connecting-ip') }));
app.get('/hono', (c) => c.text('ok'));

const core = createLimiter({ name: 'core', store, ...quota, overrides: true, ban: { after: 50, for: '1m' } });
const web = webLimit({ name: 'web', store, ...quota, clientIp });
const marked = webLimit({ name: 'marked', ...quota, clientIp, partitionKey: true });
const slots = webLimit({ name: 'slots', store, algorithm: 'concurrency', limit: 1, lease: '1m', clientIp });
const answer = rateLimited(ok, { ...quota, key: () => 'all' });
const call = limitFetch((url) => fetch(url), { ...quota, key: () => 'partner', timeout: 50 });

const redis = () => redisStore(upstashRedis({ url: REST_URL, token: REST_TOKEN }));
const remotes = {
  patient: createLimiter({
    name: 'remote',
    store: redis(),
    ...quota,
    overrides: true,
    ban: { after: 50 },
    timeout: '20s',
    connectTimeout: '20s',
  }),
  hasty: createLimiter({
    name: 'hasty',
    store: redis(),
    ...quota,
    timeout: 50,
    connectTimeout: 50,
    localShare: 0.5,
  }),
};
const remoteWeb = webLimit({
  name: 'remoteweb',
  store: redis(),
  ...quota,
  timeout: '20s',
  connectTimeout: '20s',
  clientIp,
});

/** An answer for an error: 429 if it is a denial. */
const failed = (error) =>
  new Response(error.stack, { status: error.code?.startsWith('HEADGATE_') ? 429 : 500 });

const paths = {
  '/core': async (request) => {
    const decision = await core.consume(clientKey(clientIp(request)));
    if (decision.allowed) return new Response('ok', { headers: rateLimitHeaders(decision) });
    const { status, headers, body } = denial(decision);
    return new Response(body, { status, headers });
  },
  '/remote': async (request) => {
    const { searchParams } = new URL(request.url);
    const { allowed, degraded } = await remotes[searchParams.get('limiter')].consume(searchParams.get('key'));
    return Response.json({ allowed, degraded });
  },
  '/remote-web': remoteWeb(ok),
  '/web': web(ok),
  '/marked': marked(ok),
  '/slots': slots(ok),
  '/function': () => answer().catch(failed),
  '/outbound': (request) => call(request.headers.get('partner')).catch(failed),
};

export default {
  fetch: (request, env, context) =>
    (paths[new URL(request.url).pathname] ?? app.fetch)(request, env, context),
};
