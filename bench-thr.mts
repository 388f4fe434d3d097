import { Redis } from 'ioredis';
import { spawn } from 'node:child_process';
import net from 'node:net';
import { createLimiter } from './src/index.js';
import { redisStore } from './src/redis.js';
const port: number = await new Promise((resolve) => { const s = net.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address() as any; s.close(() => resolve(port)); }); });
const server = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--loglevel', 'warning'], { stdio: 'ignore' });
const redis = new Redis(port, '127.0.0.1');
redis.on('error', () => {});
await redis.ping();
const cpu = async () => {
  const info = await redis.info('commandstats');
  const m = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(info);
  return m ? Number(m[2]) : 0;
};
let n = 0;
type P = any;
async function run(policies: P[], keys: number, each: number, batch: number, options: object = {}, extra: (i: number) => object = () => ({})) {
  const limiter = createLimiter({ name: `b${n++}`, store: redisStore(redis, { publish: false, localDenials: false }), policies, warnings: false, timeout: '10s', ...options } as never);
  // warm
  await limiter.consume('warm');
  await redis.config('RESETSTAT');
  let count = 0;
  for (let round = 0; round < each; round++)
    for (let k = 0; k < keys; k += batch) {
      const all = [];
      for (let i = k; i < Math.min(keys, k + batch); i++) all.push(limiter.consume(`k${i}`, extra(count + i)));
      await Promise.all(all);
      count += all.length;
    }
  const usec = await cpu();
  await limiter.close();
  await redis.flushall();
  return usec / count;
}
const a = { name: 'a', algorithm: 'fixed-window', limit: 100, window: '1h' };
const b = { name: 'b', algorithm: 'fixed-window', limit: 1000, window: '1d' };
const sw = { name: 's', limit: 100, window: '1h' };
const cases: Record<string, () => Promise<number>> = {};
for (const batch of [1, 64]) {
  const keys = batch === 1 ? 100 : 512;
  cases[`2 policies, batch ${batch}, none`] = () => run([a, b], keys, 99, batch);
  cases[`2 policies, batch ${batch}, [0.8,1] whole window`] = () => run([{ ...a, thresholds: [0.8, 1] }, b], keys, 99, batch);
  cases[`2 policies, batch ${batch}, [0.8,1] both`] = () => run([{ ...a, thresholds: [0.8, 1] }, { ...b, thresholds: [0.8, 1] }], keys, 99, batch);
  cases[`2 policies, batch ${batch}, none, half`] = () => run([a, b], keys, 49, batch);
  cases[`2 policies, batch ${batch}, [0.8,1] below`] = () => run([{ ...a, thresholds: [0.8, 1] }, b], keys, 49, batch);
  cases[`1 sliding, batch ${batch}, none (single script)`] = () => run([sw], keys, 99, batch);
  cases[`1 sliding, batch ${batch}, ban (general script)`] = () => run([sw], keys, 99, batch, { ban: {} });
  cases[`1 sliding, batch ${batch}, ban + [0.8,1]`] = () => run([{ ...sw, thresholds: [0.8, 1] }], keys, 99, batch, { ban: {} });
  cases[`1 sliding, batch ${batch}, [0.8,1]`] = () => run([{ ...sw, thresholds: [0.8, 1] }], keys, 99, batch);
  cases[`1 sliding, batch ${batch}, id`] = () => run([sw], keys, 99, batch, {}, (i) => ({ id: `id-${i}` }));
}
const only = process.argv[2];
const best: Record<string, number> = {};
for (let r = 0; r < Number(process.argv[3] ?? 3); r++)
  for (const [name, go] of Object.entries(cases)) {
    if (only && !name.includes(only)) continue;
    best[name] = Math.min(best[name] ?? Infinity, await go());
  }
for (const [name, us] of Object.entries(best)) console.log(name.padEnd(56), us.toFixed(2));
redis.disconnect();
server.kill();
