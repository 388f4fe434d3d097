// h3 2.
import { H3, toResponse } from 'h3';
import { rateLimit } from 'headgate/web';

const limit = rateLimit('100/1m');
export const app = new H3();
app.use((event, next) => limit(event.req, async () => toResponse(await next(), event), { ip: event.req.ip }));
