import assert from 'node:assert/strict';
import { afterEach, mock, test } from 'node:test';
import { createLimiter } from 'headgate';

afterEach(() => {
  mock.timers.reset();
});

test('a waiting call is admitted when the time comes', async () => {
  mock.timers.enable({ apis: ['Date', 'setTimeout'], now: Date.now() });
  const limiter = createLimiter({ limit: 1, window: '1m', algorithm: 'fixed-window' });
  await limiter.consume('ada');
  const waited = limiter.wait('ada');
  // The first decision comes before the timer is set.
  await new Promise(setImmediate);
  mock.timers.tick(60_000);
  assert.equal((await waited).allowed, true);
});
