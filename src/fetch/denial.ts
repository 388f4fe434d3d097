import { invalidOption } from '../common/errors.js';
import { warnOfThrown } from '../common/warnings.js';
import type { Answer, PartnerQuota } from './answer.js';

/** The option `denied`, which finds denials that no header field shows. */
export type Denied = (response: Response) => number | undefined | Promise<number | undefined>;

export interface Denial {
  /** The wait that the partner requests, ms, or `undefined` if the answer has no wait. */
  readonly ms: number | undefined;
  /** Whether the wait is the reset of a quota that is not exhausted. The denial may then have another cause, and end later. */
  readonly isGuess?: boolean;
}

/** Statuses that are denials only together with a wait. Without a wait, such a status has another cause. */
const DENY_WITH_A_WAIT = [403, 418, 420, 503, 509, 529];

/**
 * Returns the denial in an answer, or `undefined` if the call was not denied. The wait is `Retry-After`; or else the resets of exhausted
 * quotas; or else the reset of the scarcest quota, because a call that costs more than the remaining units is denied, too.
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
  if (resetMs !== undefined || retryAfterMs !== undefined) return { ms: resetMs ?? retryAfterMs };
  return { ms: scarcestReset(quotas), isGuess: true };
}

/** The reset of the quota with the smallest remaining fraction. A quota without remaining units in the answer counts as exhausted. */
function scarcestReset(quotas: readonly PartnerQuota[]): number | undefined {
  const known = quotas.filter(({ resetMs }) => resetMs);
  const least = Math.min(...known.map(partLeft));
  const scarcest = known.filter((quota) => partLeft(quota) === least).map(({ resetMs }) => resetMs!);
  return scarcest.length > 0 ? Math.max(...scarcest) : undefined;
}

const partLeft = ({ limit, remaining }: PartnerQuota): number =>
  remaining === undefined ? 0 : limit ? remaining / limit : 1;

/** Calls the option `denied`. If the callback fails, the status and the fields decide, because the call itself was answered. */
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
