// A process that asks for units of a shared limit as one tenant, and logs each admitted request.
import { appendFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';

const [, , port, policies, tenant, log] = process.argv as unknown as [
  string,
  string,
  string,
  string,
  string,
  string,
];
const redis = new Redis(Number(port));
redis.on('error', () => {});
const limiter = createLimiter({
  name: 'shared',
  store: redisStore(redis),
  policies,
  timeout: '10s',
  onStoreError: 'throw',
});

async function ask(): Promise<never> {
  for (;;) {
    const { allowed } = await limiter.consume({ provider: 'p', tenant });
    if (allowed) appendFileSync(log, `${tenant}\n`);
  }
}
process.on('disconnect', () => process.exit());
process.send!('ready');
for (let i = 0; i < 4; i++) void ask();
