// hapi.
import hapi from '@hapi/hapi';
import { rateLimit } from 'headgate/express';

const limit = rateLimit('100/1m');
export const server = hapi.server({ host: '127.0.0.1', port: 0 });
const limited = ({ raw: { req, res } }, h) =>
  new Promise((resolve, reject) => {
    res.once('close', () => resolve(h.abandon));
    limit(req, res, (error) => (error ? reject(error) : resolve(h.continue)));
  });
server.ext('onRequest', limited);
