// restify.
import restify from 'restify';
import { rateLimit } from 'headgate/express';

export const server = restify.createServer();
server.use(rateLimit('100/1m'));
