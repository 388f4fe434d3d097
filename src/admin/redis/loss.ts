import { fieldOf } from '../../stores/redis/server-version.js';
import { configurationKeys } from '../../stores/redis/operators/ban-book.js';
import { minuteKey } from '../../stores/redis/operators/count-keys.js';
import { MINUTE_MS } from '../../stores/counts/times.js';
import type { Published } from '../published.js';
import type { Loss, RecentCounts } from '../state.js';
import type { Calls } from './calls.js';

/** A loss is reported for so many minutes, and the counts of as many are sought. */
const REPORTED_MINUTES = 60;

/** The most limiters for which records are sought. */
const MAX_NAMES = 5;

/** The least time for which a process ran before the loss to have left records, ms. */
const MIN_LIFE_MS = 10_000;

/** The time in which processes may not yet have counted a decision after a loss, ms. */
const QUIET_MS = 2 * MINUTE_MS;

/**
 * Whether Redis lost the records that running processes wrote: the options of each limiter, which a process writes once, are missing. The
 * server then restarted without its data, or was emptied (FLUSHALL). Null if nothing is known to be lost.
 */
export async function readLoss(
  calls: Calls,
  published: Published,
  recent: RecentCounts,
): Promise<Loss | null> {
  const { now, counts } = recent;
  const starts = counts.flatMap(({ counted }) => counted.since ?? []);
  if (starts.length === 0) return null;
  const oldest = Math.min(...starts);
  const counted = counts.flatMap(({ counted: { limiters } }) => limiters.map(({ name }) => name));
  const names = [...new Set([...published.scopes.keys(), ...counted])].slice(0, MAX_NAMES);
  const [, ...options] = configurationKeys(calls.prefix, names);
  if (names.length === 0 || (await anyExists(calls, options))) return null;
  const hasMinute = (start: number): Promise<boolean> =>
    anyExists(
      calls,
      names.map((name) => minuteKey(calls.prefix, name, start)),
    );
  const startedAt = now - 1000 * (await uptimeOf(calls));
  if (oldest < startedAt - MIN_LIFE_MS) {
    if (startedAt < now - REPORTED_MINUTES * MINUTE_MS) return null;
    // With these counts, the server has kept its data, and a process may not write options.
    for (let at = startedAt - (startedAt % MINUTE_MS) - MINUTE_MS, i = 0; i < MAX_NAMES; at -= MINUTE_MS, i++)
      if (await hasMinute(at)) return null;
    return { at: new Date(startedAt), cause: 'restart' };
  }
  // Processes may lack the right to write records.
  if (published.scopes.size === 0 || !(await wasFlushed(calls))) return null;
  let first = now - (now % MINUTE_MS);
  for (let i = 0; await hasMinute(first - MINUTE_MS); i++) {
    if (i === REPORTED_MINUTES) return null;
    first -= MINUTE_MS;
  }
  return oldest < first - QUIET_MS ? { at: new Date(first), cause: 'flush' } : null;
}

async function anyExists(calls: Calls, keys: readonly string[]): Promise<boolean> {
  const found = await Promise.all(keys.map((key) => calls.call('PTTL', key)));
  return found.some((ms) => Number(ms) !== MISSING);
}

/** The reply of PTTL for a missing key. */
const MISSING = -2;

/** The time since the server of the records started, s. Infinity if the server does not report it. */
async function uptimeOf(calls: Calls): Promise<number> {
  const seconds = Number(fieldOf(await infoOf(calls, 'server'), 'uptime_in_seconds'));
  return Number.isNaN(seconds) ? Infinity : seconds;
}

const wasFlushed = async (calls: Calls): Promise<boolean> =>
  /^cmdstat_flush(all|db):/m.test(await infoOf(calls, 'commandstats'));

async function infoOf(calls: Calls, section: string): Promise<string> {
  const [key] = configurationKeys(calls.prefix, []);
  const servers = await calls.servers();
  const server = servers.find(({ name }) => name === calls.commands.serverOf(key!)) ?? servers[0]!;
  return calls.ask(server.send(['INFO', section]).then(String, () => ''));
}
