// React Router: app/root.jsx.
import { rateLimit } from 'headgate/web';

const limit = rateLimit({
  limit: 100,
  window: '1m',
  clientIp: (request) => request.headers.get('x-real-ip'), // Your proxy sets it: nginx by `proxy_set_header X-Real-IP $remote_addr;`.
});
export const middleware = [({ request }, next) => limit(request, next)];
