import { clearTimeout, setTimeout } from './real-time.js';

/** Waits for a promise, but for `ms` at most. After that, `late` returns the value or throws. */
export async function within<T>(ms: number, promise: Promise<T>, late: () => T | Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const isLate = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    return await Promise.race([promise, isLate.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}
