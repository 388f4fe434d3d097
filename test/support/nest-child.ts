// A process with a Nest app on Redis. It requests the given paths and prints the statuses.
import { Redis } from 'ioredis';
import { redisStore } from 'headgate/redis';
import { RateLimitModule } from 'headgate/nestjs';
import { sharedController } from './nest-controllers.js';
import { listen, moduleOf, platforms } from './nest.js';

const [port, prefix, ...paths] = process.argv.slice(2);
const redis = new Redis(Number(port));
await redis.ping();
const store = redisStore(redis, { prefix: prefix! });
const module = moduleOf(
  [sharedController()],
  RateLimitModule.forRoot({ store, timeout: '10s', limit: 100, window: '1m' }),
);
const { app, url } = await listen(module, platforms['Express']!());
const statuses: number[] = [];
for (const path of paths) statuses.push((await fetch(url + path)).status);
console.log(JSON.stringify(statuses));
await app.close();
redis.disconnect();
