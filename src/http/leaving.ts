import type { HeadgateError } from '../common/errors.js';
import type { Leaving, ResponsePort } from './framework.js';

/** The result for a request whose client left before an answer. */
export const LEFT = Symbol('headgate.left');

/** Runs work that ends when the client leaves. @param work receives a signal, and rejects with `HEADGATE_ABORTED` once it is aborted */
export async function whileConnected<Res, T>(
  port: ResponsePort<Res> & Leaving<Res>,
  res: Res,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | typeof LEFT> {
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  if (port.hasLeft(res)) leave();
  const stopListening = port.onEnd(res, leave);
  try {
    return await work(gone.signal);
  } catch (error) {
    if (gone.signal.aborted && (error as HeadgateError).code === 'HEADGATE_ABORTED') return LEFT;
    throw error;
  } finally {
    stopListening();
  }
}
