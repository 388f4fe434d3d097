import { createConnection } from 'node:net';
import type { Address } from './address.js';

/** How long to wait, ms. A running server answers at once. */
const PATIENCE = 1000;

/** Whether a port speaks Redis without TLS. Such a server does not answer a TLS handshake at all. */
export function speaksPlainly({ host, port }: Address): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host, port });
    const done = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(PATIENCE, () => done(false));
    socket.once('connect', () => socket.write('PING\r\n'));
    // The answer is `+PONG`, or `-NOAUTH ...`.
    socket.once('data', (reply: Buffer) => done(/^[+-][A-Z]/.test(reply.toString('latin1'))));
    socket.once('error', () => done(false));
    socket.once('close', () => done(false));
  });
}
