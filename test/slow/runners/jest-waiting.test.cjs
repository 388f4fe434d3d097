const { createLimiter } = require('headgate');

afterEach(() => {
  jest.useRealTimers();
});

test('a waiting call is admitted when the time comes', async () => {
  jest.useFakeTimers();
  const limiter = createLimiter({ limit: 1, window: '1m', algorithm: 'fixed-window' });
  await limiter.consume('ada');
  const waited = limiter.wait('ada');
  await jest.advanceTimersByTimeAsync(60_000);
  expect((await waited).allowed).toBe(true);
});
