// An app that replaces @fastify/rate-limit route by route has both plugins, and the types of both.
import theirs from '@fastify/rate-limit';
import Fastify from 'fastify';
import { rateLimitPlugin } from 'headgate/fastify';

export async function sideBySide(): Promise<void> {
  const fastify = Fastify();
  await fastify.register(async (old) => {
    await old.register(theirs, { max: 100, timeWindow: '1 minute' });
    old.get('/theirs', { config: { rateLimit: { max: 5, timeWindow: '1 minute' } } }, () => 'theirs');
  });
  await fastify.register(async (ours) => {
    await ours.register(rateLimitPlugin, { limit: 100, window: '1m' });
    ours.get('/ours', { config: { rateLimit: { limit: 5, window: '1m' } } }, (request) => ({
      remaining: request.rateLimit?.remaining,
    }));
    ours.get('/free', { config: { rateLimit: false } }, () => 'free');
    ours.get('/hook', { onRequest: ours.rateLimit({ limit: 5, window: '1m' }) }, () => 'hook');
  });
}
