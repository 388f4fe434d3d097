// A process that charges, settles, refunds and overrides keys at random. It sends the thresholds that it was told about, and those that
// its own decisions crossed.
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { LIMITS, THRESHOLD_OPTIONS, THRESHOLDS } from './threshold-task.js';

const [port, prefix, count, keys] = process.argv.slice(2);
const redis = new Redis(Number(port));
redis.on('error', () => {});
const reported: string[] = [];
const crossed = new Set<string>();
const limiter = createLimiter({
  ...THRESHOLD_OPTIONS,
  store: redisStore(redis, { prefix: prefix!, thresholds: 'stream', publish: false }),
  onThreshold: ({ key, threshold, limit }) => reported.push(`${key} ${threshold} ${limit}`),
});
let left = Number(count);

const random = (most: number): number => Math.floor(Math.random() * most);

async function decide(key: string): Promise<void> {
  const cost = 1 + random(4);
  const decision = await limiter.consume(key, { cost });
  if (!decision.allowed) return;
  const { limit, remaining } = decision.policies[0]!;
  const used = limit - remaining;
  for (const threshold of THRESHOLDS)
    if (used >= threshold * limit && used - cost < threshold * limit)
      crossed.add(`${key} ${threshold} ${limit}`);
  const chance = random(20);
  if (chance < 3) await decision.settle(random(8));
  else if (chance < 5) await decision.refund();
  else if (chance === 5) await limiter.refund(key, 1 + random(5));
}

async function work(): Promise<void> {
  while (left-- > 0) {
    const key = `key-${random(Number(keys))}`;
    if (random(2000) === 0) {
      const limit = LIMITS[random(LIMITS.length)]!;
      await limiter.override(key, { limit }, { for: '1d' });
    } else if (random(4000) === 0) await limiter.removeOverride(key);
    await decide(key);
    if (left === Math.floor(Number(count) / 2)) process.send!('half');
  }
}

process.send!('ready');
await Promise.all(Array.from({ length: 64 }, work));
process.send!({ reported, crossed: [...crossed] });
process.on('disconnect', () => redis.disconnect());
