// A process that closes its limiter in the middle of traffic. The process reports the outcomes of the decisions, and must end by itself.
import { Redis } from 'ioredis';
import { createLimiter, HeadgateError } from 'headgate';
import { redisStore } from 'headgate/redis';

const client = new Redis(Number(process.argv[2]), { retryStrategy: () => 50 });
client.on('error', () => {});
const limiter = createLimiter({ store: redisStore(client), limit: 1000, window: '1m', timeout: '200ms' });
const outcomes: Record<string, number> = {};
const note = (outcome: string) => void (outcomes[outcome] = (outcomes[outcome] ?? 0) + 1);
const pending: Promise<void>[] = [];
let running = false;
const traffic = setInterval(() => {
  for (let i = 0; i < 20; i++) {
    pending.push(
      limiter.consume(`key-${i}`).then(
        ({ degraded }) => note(degraded ? 'degraded' : 'decided'),
        (error: unknown) => note(error instanceof HeadgateError ? error.code : String(error)),
      ),
    );
  }
  if (running || pending.length <= 100 || !outcomes['decided']) return;
  running = true;
  process.send!('running');
}, 1);
process.once('message', () => {
  const requested = pending.length;
  void limiter.close().then(async () => {
    clearInterval(traffic);
    await Promise.all(pending);
    process.send!({
      asked: requested,
      answered: Object.values(outcomes).reduce((sum, n) => sum + n, 0),
      outcomes,
    });
    client.disconnect();
    process.disconnect();
  });
});
