import { memoryStore } from 'headgate';
import { afterEach, it } from 'mocha';
import sinon from 'sinon';
import request from 'supertest';
import { createApp } from './app.cjs';

const store = memoryStore();
const app = createApp(store);

afterEach(() => {
  sinon.restore();
  store.clear();
});

it('denies the third request of a minute', async () => {
  // Sockets need Node's own timers: only the date is a fake.
  const clock = sinon.useFakeTimers({ now: Date.now(), toFake: ['Date'] });
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(429).expect('Retry-After', '60');
  clock.tick(60_000);
  await request(app).get('/').expect(200);
});

it('finds the store empty in each test', async () => {
  await request(app).get('/').expect(200).expect('RateLimit-Remaining', '1');
});
