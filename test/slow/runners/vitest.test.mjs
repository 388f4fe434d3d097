import { memoryStore } from 'headgate';
import request from 'supertest';
import { afterEach, test, vi } from 'vitest';
import { createApp } from './app.cjs';

const store = memoryStore();
const app = createApp(store);

afterEach(() => {
  vi.useRealTimers();
  store.clear();
});

test('the third request of a minute is denied', async () => {
  // Sockets need Node's own timers: only the date is a fake.
  vi.useFakeTimers({ toFake: ['Date'] });
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(429).expect('Retry-After', '60');
  vi.setSystemTime(Date.now() + 60_000);
  await request(app).get('/').expect(200);
});

test('each test finds the store empty', async () => {
  await request(app).get('/').expect(200).expect('RateLimit-Remaining', '1');
});
