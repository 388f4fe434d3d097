// Points that never come back. docs/migrating/rate-limiter-flexible.md has the program after the move.
import { RateLimiterMemory } from 'rate-limiter-flexible';

const trial = new RateLimiterMemory({ points: 3, duration: 0 });
for (let use = 1; use <= 4; use++) {
  try {
    const { remainingPoints } = await trial.consume('ada');
    console.log(`use ${use}: ${remainingPoints} left`);
  } catch {
    console.log(`use ${use}: the trial is over`);
  }
}
