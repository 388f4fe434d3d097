// An application with a limiter of express-rate-limit or of the stand-in, and the responses and values that it produces.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express5, { type ErrorRequestHandler, type Request, type RequestHandler } from 'express';
import express4 from 'express4';
import * as theirs from 'express-rate-limit';
import * as ours from 'headgate/compat/express-rate-limit';

/** The two have one face. */
export type Library = typeof ours;

export const libraries = { theirs: theirs as unknown as Library, ours };

export const expresses = { 'Express 4': express4 as unknown as typeof express5, 'Express 5': express5 };

export interface Served {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/** `/` answers 200, `/error` 400; `/broken` 200, after an error of the response. A failed request is answered with 500 and the error's message. */
export async function serve(
  limiters: readonly RequestHandler[],
  { express = express5, trustProxy = 'loopback', seen }: AppOptions = {},
): Promise<Served> {
  const app = express();
  app.set('trust proxy', trustProxy);
  const watch: RequestHandler = (req, res, next) => {
    res.once('finish', () => seen?.(req));
    next();
  };
  const fail: ErrorRequestHandler = (error: Error, _req, res, _next) => {
    res.status(500).send(error.message);
  };
  app.use(watch, ...limiters);
  app.all('/', (_req, res) => void res.send('Hi there!'));
  app.get('/error', (_req, res) => void res.sendStatus(400));
  app.get('/broken', (_req, res) => {
    res.emit('error', new Error('broken'));
    res.send('sent even so');
  });
  app.use(fail);
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export interface AppOptions {
  readonly express?: typeof express5;
  readonly trustProxy?: unknown;
  /** Called with each request after the answer. */
  readonly seen?: (request: Request) => void;
}
