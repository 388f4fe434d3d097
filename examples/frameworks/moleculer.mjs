// Moleculer: the settings of moleculer-web.
import ApiGateway from 'moleculer-web';
import { rateLimit } from 'headgate/express';

export const api = {
  name: 'api',
  mixins: [ApiGateway],
  settings: {
    port: 0,
    ip: '127.0.0.1',
    use: [rateLimit('100/1m')],
    routes: [{ aliases: { 'GET /': 'shop.hello' } }],
  },
};
