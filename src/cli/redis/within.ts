import { within as withinMs } from '../../common/within.js';
import { CliError } from '../errors.js';
import { showAddress } from './address.js';
import type { Target } from './client.js';

/** Waits for an answer, up to the user's timeout. @throws CliError `UNREACHABLE`; otherwise what `answer` rejects with */
export function within<T>({ address, timeout }: Target, answer: Promise<T>): Promise<T> {
  return withinMs(timeout, answer, () => {
    const message = `${showAddress(address)} has not answered within ${timeout} ms. --timeout sets how long to wait.`;
    throw new CliError('UNREACHABLE', message);
  });
}
