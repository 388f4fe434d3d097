// Azure Functions 4, whose X-Forwarded-For has a port.
import { app } from '@azure/functions';
import { rateLimit } from 'headgate/web';

/** `203.0.113.9:50123`, `[2001:db8::1]:50123`, or no port at all. */
const withoutPort = (address) =>
  /^(?:\[(.+)\]|([\d.]+))(?::\d+)?$/.exec(address)?.slice(1).find(Boolean) ?? address;
// The last address, which Azure has appended. A client may have sent those before it.
const clientIp = (request) =>
  withoutPort(request.headers.get('x-forwarded-for')?.split(',').at(-1).trim() ?? '');
export const handler = rateLimit({ limit: 100, window: '1m', clientIp })(() => new Response('hello'));
app.http('hello', { handler });
