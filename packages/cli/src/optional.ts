import { withoutPage } from 'headgate/admin';
import { warn, type Io } from './io.js';

/** The answers of servers to a user without permission for a command, a key or a table. */
export const FORBIDDEN = /NOPERM|ACL failure|can't run this command|permission denied/;

/**
 * The answer to a question beside that of a command, or `undefined` without one. A user without permission for it still gets the answer of the
 * command. Every other failure is a warning.
 */
export async function optional<T>(answer: Promise<T>, what: string, io: Io): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    const { message } = error as Error;
    if (!FORBIDDEN.test(message))
      warn(io, [{ code: 'UNREADABLE', message: `${what} cannot be read: ${withoutPage(message)}` }]);
    return undefined;
  }
}
