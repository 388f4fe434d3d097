import { HeadgateError } from '../../errors.js';
import { clearTimeout, setTimeout } from '../real-time.js';

interface Emitter {
  once(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

/** How long to wait for a client that emits no event, ms: the longest `timeout`. Each caller waits only for its own. */
const LONGEST = 60_000;

export function away(why: string): HeadgateError {
  return new HeadgateError('HEADGATE_STORE_AWAY', `The store's client is not connected: ${why}.`);
}

/** Resolves with the first of the events `up`. @throws HeadgateError `HEADGATE_STORE_AWAY` with the first of `down` */
export function connection(client: Emitter, up: readonly string[], down: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = () => {
      clearTimeout(timer);
      for (const event of up) client.removeListener(event, succeed);
      for (const event of down) client.removeListener(event, fail);
    };
    const succeed = () => {
      done();
      resolve();
    };
    const fail = () => {
      done();
      reject(away('it could not connect'));
    };
    const timer = setTimeout(fail, LONGEST).unref();
    for (const event of up) client.once(event, succeed);
    for (const event of down) client.once(event, fail);
  });
}
