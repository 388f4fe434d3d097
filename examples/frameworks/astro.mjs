// Astro: src/middleware.js.
import { rateLimit } from 'headgate/web';

const limit = rateLimit('100/1m');
export const onRequest = ({ request, clientAddress }, next) => limit(request, next, { ip: clientAddress });
