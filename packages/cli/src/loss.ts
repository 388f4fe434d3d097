import type { Admin } from 'headgate/admin';
import { duration } from './format.js';
import { complain, type Io } from './io.js';

const SECOND_MS = 1000;
const MINUTE_MS = 60_000;

/** The notice of a server without records, or `undefined`. A user without the permissions gets none. */
export async function lossMessage(admin: Admin): Promise<string | undefined> {
  const loss = await admin.loss().catch(() => undefined);
  if (!loss) return undefined;
  const ms = Math.max(1, Date.now() - loss.at.getTime());
  const unit = ms < MINUTE_MS ? SECOND_MS : MINUTE_MS;
  const what = loss.cause === 'restart' ? 'Redis restarted' : 'Redis was emptied';
  const since = `${duration(unit * Math.ceil(ms / unit))} ago`;
  return `${what} ${since}${loss.cause === 'restart' ? ' without its records' : ''}: earlier bans, overrides, charges, counts and log entries are gone.`;
}

/** Warns of lost records, because an empty list looks like calm. */
export async function warnOfLoss(admin: Admin, io: Io): Promise<void> {
  const message = await lossMessage(admin);
  if (message === undefined) return;
  complain(io, { warning: true, code: 'RECORDS_LOST', message }, `warning: ${message}`);
}
