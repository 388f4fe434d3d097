// The codes of the errors that tests expect.
import { HeadgateError } from 'headgate';

/** The code of the error with which a call throws or rejects, or 'none'. */
export async function codeOf(work: Promise<unknown> | (() => unknown)): Promise<string> {
  try {
    await (typeof work === 'function' ? work() : work);
  } catch (error) {
    return codeFrom(error);
  }
  return 'none';
}

/** The code of the error that a call throws at once, or 'none'. */
export function codeThrownBy(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    return codeFrom(error);
  }
  return 'none';
}

function codeFrom(error: unknown): string {
  if (error instanceof HeadgateError) return error.code;
  throw error;
}
