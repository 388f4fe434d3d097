import { createLimiter } from 'headgate';
import { afterEach, expect, test, vi } from 'vitest';

afterEach(() => {
  vi.useRealTimers();
});

test('a waiting call is admitted when the time comes', async () => {
  vi.useFakeTimers();
  const limiter = createLimiter({ limit: 1, window: '1m', algorithm: 'fixed-window' });
  await limiter.consume('ada');
  const waited = limiter.wait('ada');
  await vi.advanceTimersByTimeAsync(60_000);
  expect((await waited).allowed).toBe(true);
});
