// A process that calls a server as fast as its limiter admits. Arguments: the server's URL, Redis' URL, the process, calls at a time, options as JSON.
import { Redis } from 'ioredis';
import { limitFetch } from '../../src/fetch.js';
import { redisStore } from '../../src/stores/redis/redis.js';

const [url = '', redisUrl = '', id = '', each = '1', options = '{}'] = process.argv.slice(2);
const call = limitFetch(fetch, {
  ...{ name: 'partner', policies: ['50/1s'], store: redisStore(new Redis(redisUrl)), timeout: '60s' },
  ...(JSON.parse(options) as object),
});
async function work(): Promise<never> {
  for (;;) {
    try {
      const response = await call(url, { headers: { 'x-process': id, 'x-came': String(Date.now()) } });
      await response.text();
    } catch (error) {
      process.send!(String(error));
      process.exit(1);
    }
  }
}
process.on('disconnect', () => process.exit());
// All processes are connected before the first calls.
await call.limiter.peek('nobody');
process.send!('ready');
process.on('message', () => {
  for (let i = 0; i < Number(each); i++) void work();
});
