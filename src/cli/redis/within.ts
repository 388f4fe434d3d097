import { CliError } from '../errors.js';
import { showAddress } from './address.js';
import type { Target } from './client.js';

/** Waits for an answer, up to the user's timeout. @throws CliError `UNREACHABLE`; otherwise what `answer` rejects with */
export async function within<T>({ address, timeout }: Target, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const message = `${showAddress(address)} has not answered within ${timeout} ms. --timeout sets how long to wait.`;
      reject(new CliError('UNREACHABLE', message));
    }, timeout);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
