const request = require('supertest');
const { memoryStore } = require('headgate');
const { createApp } = require('./app.cjs');

const store = memoryStore();
const app = createApp(store);

afterEach(() => {
  jest.useRealTimers();
  store.clear();
});

test('the third request of a minute is denied', async () => {
  // Sockets need Node's own timers: only the date is a fake.
  jest.useFakeTimers({
    doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'setTimeout', 'performance'],
  });
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(429).expect('Retry-After', '60');
  jest.setSystemTime(Date.now() + 60_000);
  await request(app).get('/').expect(200);
});

test('each test finds the store empty', async () => {
  await request(app).get('/').expect(200).expect('RateLimit-Remaining', '1');
});
