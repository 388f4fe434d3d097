// AdonisJS: app/middleware/rate_limit.js.
import { rateLimit } from 'headgate/express';

const limit = rateLimit('100/1m');
export default class RateLimitMiddleware {
  handle = ({ request, response }, next) =>
    new Promise((resolve, reject) => {
      response.response.once('close', resolve);
      limit(request.request, response.response, (error) =>
        error ? reject(error) : next().then(resolve, reject),
      );
    });
}
