// A process with fake timers from before Headgate is loaded. Prints the outcome of 12 simultaneous decisions (on Redis if a port is given),
// the error of a store without answers, and the timer that ran: one of two timers was cleared.
import { createServer } from 'node:net';
import { mock } from 'node:test';
import { Redis } from 'ioredis';
import { useFakeTimers } from 'sinon';

const [port, fakes] = process.argv.slice(2);
const redis = port === 'none' ? undefined : new Redis(Number(port));
await redis?.ping();
// A fake timer does not keep the process alive.
if (!redis) createServer().listen(0, '127.0.0.1');
if (fakes === 'sinon') useFakeTimers({ toNotFake: ['nextTick', 'queueMicrotask'] });
else mock.timers.enable();

const { createLimiter } = await import('headgate');
const { redisStore } = await import('headgate/redis');
const options = { limit: 10, window: '1m', onStoreError: 'throw' } as const;
const store = redis && redisStore(redis, { prefix: `fakes-${fakes}` });
const limiter = createLimiter({ ...options, ...(store && { store }) });
const decisions = await Promise.all(Array.from({ length: 12 }, () => limiter.consume('ada')));
const admitted = decisions.filter(({ allowed }) => allowed).length;

const never = () => new Promise<never>(() => {});
const hanging = { decide: never, adjust: never, lease: never, reset: never, ban: never };
const error = await createLimiter({ ...options, store: hanging, timeout: 50, connectTimeout: 50 })
  .consume('ada')
  .catch((thrown: { code: string }) => thrown.code);

const { clearTimeout, setTimeout } = await import('../../src/common/real-time.js');
const ran: string[] = [];
const cleared = setTimeout(() => ran.push('cleared'), 1);
clearTimeout(cleared);
clearTimeout(undefined);
await new Promise<void>((resolve) => setTimeout(() => resolve(void ran.push('kept')), 20));
console.log(JSON.stringify({ admitted, error, ran }));
process.exit();
