// Elysia.
import { Elysia } from 'elysia';
import { rateLimit } from 'headgate/web';

const app = new Elysia().get('/', () => 'hello');
export default { fetch: rateLimit('100/1m')(app.fetch) };
