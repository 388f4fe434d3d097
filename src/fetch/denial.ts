import { invalidOption } from '../common/errors.js';
import { warnOfThrown } from '../common/warnings.js';
import type { Answer, Quota } from './answer.js';

/** The option `denied`: finds denials that no header field shows. */
export type Denied = (response: Response) => number | undefined | Promise<number | undefined>;

/** An answer that turned a call away. */
export interface Denial {
  /** The wait that the partner asks for, ms; `undefined` if the answer names none. */
  readonly ms: number | undefined;
}

/** Statuses that deny if the answer also names a wait. Without one they have other causes. */
const DENY_WITH_A_WAIT = [403, 418, 420, 503, 509, 529];

/**
 * Whether an answer denied a call, and for how long. `Retry-After` counts first, then the resets of the quotas that are
 * used up, then the reset of the quota that is the nearest to its end: a call that costs more than what is left is
 * denied, too.
 */
export function denialOf(status: number, { retryAfterMs, quotas }: Answer): Denial | undefined {
  const spent = quotas.filter(({ remaining, resetMs }) => remaining === 0 && resetMs !== undefined);
  const isDenied =
    status === 429 ||
    (DENY_WITH_A_WAIT.includes(status) && retryAfterMs !== undefined) ||
    (status === 403 && spent.length > 0);
  if (!isDenied) return undefined;
  if (retryAfterMs) return { ms: retryAfterMs };
  const resetMs = spent.length > 0 ? Math.max(...spent.map((quota) => quota.resetMs!)) : undefined;
  return { ms: resetMs ?? retryAfterMs ?? scarcestReset(quotas) };
}

/** The reset of the quota with the smallest part left. A quota that hides its remaining units counts as used up. */
function scarcestReset(quotas: readonly Quota[]): number | undefined {
  const known = quotas.filter(({ resetMs }) => resetMs);
  const least = Math.min(...known.map(partLeft));
  const scarcest = known.filter((quota) => partLeft(quota) === least).map(({ resetMs }) => resetMs!);
  return scarcest.length > 0 ? Math.max(...scarcest) : undefined;
}

const partLeft = ({ limit, remaining }: Quota): number =>
  remaining === undefined ? 0 : limit ? remaining / limit : 1;

/** Asks the option `denied`. If it fails, the status and the fields decide, because the call itself was answered. */
export async function askDenied(denied: Denied, response: () => Response): Promise<number | undefined> {
  try {
    const ms = await denied(response());
    if (ms === undefined || ms >= 0) return ms;
    throw invalidOption('denied', ms, 'Return milliseconds, or undefined if the fields decide.');
  } catch (error) {
    warnOfThrown('denied', error);
    return undefined;
  }
}
