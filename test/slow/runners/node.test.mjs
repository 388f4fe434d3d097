import { afterEach, mock, test } from 'node:test';
import { memoryStore } from 'headgate';
import request from 'supertest';
import { createApp } from './app.cjs';

const store = memoryStore();
const app = createApp(store);

afterEach(() => {
  mock.timers.reset();
  store.clear();
});

test('the third request of a minute is denied', async () => {
  // Sockets need Node's own timers: only the date is a fake.
  mock.timers.enable({ apis: ['Date'], now: Date.now() });
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(429).expect('Retry-After', '60');
  mock.timers.tick(60_000);
  await request(app).get('/').expect(200);
});

test('each test finds the store empty', async () => {
  await request(app).get('/').expect(200).expect('RateLimit-Remaining', '1');
});
