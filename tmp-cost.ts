import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { spawn } from 'node:child_process';
const server = spawn('redis-server', ['--port', '7799', '--save', '', '--appendonly', 'no'], { stdio: 'ignore' });
await new Promise((r) => setTimeout(r, 500));
const redis = new Redis(7799);
await redis.flushall();
const make = (prefix: string, policies: any) => createLimiter({ store: redisStore(redis, { prefix: prefix.replace(/\W/g, "_"), localDenials: false }), policies, timeout: '10s', onStoreError: 'throw' });
let n = 0;
const P = '100000/1m by provider share tenant';
const cases: Record<string, [any, (i: number) => any, object?]> = {
  one: ['100000/1m', () => `k${n++ % 50}`],
  two: [['a=100000/1m', 'b=100000/1m by tenant'], () => ({ key: 'p', tenant: `t${n++ % 50}` })],
  'shared, 50 light': [P, () => ({ provider: 'p', tenant: `t${n++ % 50}` })],
  'shared + own': [[`a=${P}`, 'b=100000/1m by tenant'], () => ({ provider: 'p', tenant: `t${n++ % 50}` })],
  'shared, hog and 50 light, 2000/10s': ['2000/10s by provider share tenant', () => ({ provider: 'p', tenant: n++ % 4 ? 'hog' : `t${n % 50}` })],
  'hog denied, 500/1m': ['500/1m by provider share tenant', () => ({ provider: 'p', tenant: 'hog' })],
  'two, denied': [['a=500/1m', 'b=100000/1m by tenant'], () => ({ key: 'p', tenant: `t` })],
};
const limiters = Object.fromEntries(Object.entries(cases).map(([name, [p]]) => [name, make(name, p)]));
const results: Record<string, number[]> = {};
for (let round = 0; round < Number(process.argv[2] ?? 9); round++)
  for (const [name, [, key]] of Object.entries(cases)) {
    if (round === 0) for (let i = 0; i < 600; i++) await limiters[name]!.consume(key(i));
    await redis.config('RESETSTAT');
    let allowed = 0;
    for (let i = 0; i < 700; i++) if ((await limiters[name]!.consume(key(i))).allowed) allowed++;
    const u = Number(/cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([\d.]+)/.exec(await redis.info('commandstats'))![1]);
    (results[name] ??= []).push(u);
    if (round === 1) console.log(name, allowed / 700);
  }
for (const [name, r] of Object.entries(results)) { r.sort((a, b) => a - b); console.log(name.padEnd(40), r[r.length >> 1], r[0]); }
redis.disconnect(); server.kill();
