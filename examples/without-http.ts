// A limiter without HTTP: jobs of a queue, at most 3 per customer and minute over all workers.
//
//   npx tsx examples/without-http.ts
import { createLimiter } from 'headgate';

// In memory here. With `store: redisStore(redis)` all workers share the quota.
const limiter = createLimiter({
  name: 'jobs',
  limit: 3,
  window: '1m',
  warnings: ['HEADGATE_COST_ABOVE_CAPACITY'], // One of the jobs below is too large on purpose.
});

async function run(customer: string, job: string, cost = 1) {
  const decision = await limiter.consume(customer, { cost });
  if (!decision.allowed) {
    const when =
      decision.retryAfterMs === undefined ? 'never' : `in ${Math.ceil(decision.retryAfterMs / 1000)} s`;
    console.log(`${customer} ${job}: denied (${decision.reason}), again ${when}`);
    return;
  }
  try {
    if (job === 'broken') throw new Error('The job failed');
    console.log(`${customer} ${job}: done, ${decision.remaining} remaining`);
  } catch {
    await decision.refund(); // A failed job is not charged.
    console.log(`${customer} ${job}: failed, given back`);
  }
}

await run('ada', 'report');
await run('ada', 'broken');
await run('ada', 'import', 2);
await run('ada', 'report');
await run('ada', 'huge', 10);
await run('bob', 'report');

const { remaining } = await limiter.peek('ada'); // Only looks: charges nothing.
console.log(`ada has ${remaining} remaining`);
await limiter.reset('ada');
await run('ada', 'report');

await limiter.close();
