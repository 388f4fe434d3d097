// A process that takes two slots, reports success, and never gives the slots back. Arguments: the server's URL, the prefix.
import { Redis } from 'ioredis';
import { createLimiter } from '../../src/index.js';
import { redisStore } from '../../src/stores/redis/redis.js';

const [url = '', prefix = ''] = process.argv.slice(2);
const limiter = createLimiter({
  ...{ name: 'slots', algorithm: 'concurrency', limit: 2, lease: 1500 },
  store: redisStore(new Redis(url), { prefix }),
  timeout: '10s',
  onStoreError: 'throw',
});
const held = [await limiter.acquire('k'), await limiter.acquire('k')];
process.send!(held.every(({ allowed }) => allowed) ? 'held' : 'denied');
// The process ends together with its parent.
process.on('disconnect', () => process.exit());
