import assert from 'node:assert/strict';
import { createLimiter } from 'headgate';
import { afterEach, it } from 'mocha';
import sinon from 'sinon';

afterEach(() => {
  sinon.restore();
});

it('admits a waiting call when the time comes', async () => {
  const clock = sinon.useFakeTimers(Date.now());
  const limiter = createLimiter({ limit: 1, window: '1m', algorithm: 'fixed-window' });
  await limiter.consume('ada');
  const waited = limiter.wait('ada');
  await clock.tickAsync(60_000);
  assert.equal((await waited).allowed, true);
});
