const express = require('express');
const { memoryStore } = require('headgate');
const { rateLimit } = require('headgate/express');

/** In production: createApp(redisStore(redis)). */
exports.createApp = function createApp(store = memoryStore()) {
  const app = express();
  app.use(rateLimit({ name: 'api', store, algorithm: 'fixed-window', limit: 2, window: '1m' }));
  app.get('/', (_req, res) => void res.send('ok'));
  return app;
};
