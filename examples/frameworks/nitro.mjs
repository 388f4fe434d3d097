// Nitro 2 with h3 1: server/middleware/limit.js.
import { eventHandler } from 'h3-1';
import { rateLimit } from 'headgate/express';

const limit = rateLimit('100/1m');

// Not fromNodeMiddleware, which misses the end of a response that Nitro's localFetch emulates.
export default eventHandler(
  ({ node: { req, res } }) =>
    new Promise((resolve, reject) => {
      res.once('close', resolve);
      limit(req, res, (error) => (error ? reject(error) : resolve()));
    }),
);
