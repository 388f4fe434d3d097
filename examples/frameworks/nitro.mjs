// Nitro 2 with h3 1: server/middleware/limit.js.
import { fromNodeMiddleware } from 'h3-1';
import { rateLimit } from 'headgate/express';

export default fromNodeMiddleware(rateLimit('100/1m'));
