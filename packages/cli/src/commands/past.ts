import type { Admin, LoggedChange, MinuteDenials, PastDenials } from 'headgate/admin';
import { keyOptionsOf, type Options } from '../command.js';
import { usageError } from '../errors.js';
import { count, many, printable, table, type Table } from '../format.js';
import { writeAnswer, type Io } from '../io.js';
import { prefixOf } from '../keys.js';
import { withAdmin } from '../open.js';
import { age, clock, instant, momentIn, titled, typedMoment } from '../times.js';
import { durationOf } from './ban.js';
import { changesAround } from './causes.js';
import { changeDocument, changesTable } from './log.js';

/** The time around the asked one in which denials are shown, ms. */
const AROUND_MS = 5 * 60_000;

const DAY_MS = 86_400_000;

/** Shows why a key was denied around a time of the last 24 hours. */
export async function showPast(given: string, at: string, options: Options, io: Io): Promise<void> {
  const time = timeOf(at, Date.now(), io);
  const key = keyOptionsOf(options, given);
  await withAdmin(options, io, async (admin) => {
    const all = await admin.denials(given, { name: options.name, ...key });
    const unknown = notKept(time, Date.now(), io) ?? (await notFound(admin, options.name, all));
    const changes = await changesAround(admin, {
      names: namesOf(options.name, all),
      keys: new Set([given, ...all.map((past) => past.key)]),
      time,
      aroundMs: AROUND_MS,
    });
    const document = {
      at: new Date(time).toISOString(),
      known: unknown === undefined,
      denials: all.map(({ first, last, minutes, ...past }) => ({
        ...past,
        first: first.toISOString(),
        last: last.toISOString(),
        minutes: minutes.map(({ minute, ...each }) => ({ minute: new Date(minute).toISOString(), ...each })),
      })),
      changes: changes.map(changeDocument),
    };
    await writeAnswer(io, document, () =>
      unknown === undefined
        ? text(given, time, all, io) + changesText(changes, io)
        : `Unknown: ${unknown}\n${wholeText(all, io)}`,
    );
  });
}

/** The limiters whose changes may be the cause: those that denied the key. */
function namesOf(name: string | undefined, all: readonly PastDenials[]): ReadonlySet<string> | undefined {
  if (name !== undefined) return new Set([name]);
  return all.length > 0 ? new Set(all.map((past) => past.name)) : undefined;
}

function changesText(changes: readonly LoggedChange[], io: Io): string {
  if (changes.length === 0) return '';
  return `\nChanges of this key and of all keys, in force or made around then:\n${changesTable(changes, io)}`;
}

/** The reason why no store can know a time, or `undefined`. */
function notKept(time: number, now: number, io: Io): string | undefined {
  const shown = instant(io, time);
  if (time > now) return `${shown} lies in the future.`;
  return time < now - DAY_MS ? `denials are kept for 24 hours, and ${shown} is earlier.` : undefined;
}

/** The reason why the limiters of the key are not known, or `undefined`. */
async function notFound(
  admin: Admin,
  name: string | undefined,
  all: readonly PastDenials[],
): Promise<string | undefined> {
  if (name !== undefined || all.length > 0) return undefined;
  const { limiters } = await admin.limiters();
  return limiters.length > 0
    ? undefined
    : 'no limiter is published. Pass --name with the name of the limiter.';
}

type Row = PastDenials & MinuteDenials;

function text(given: string, time: number, all: readonly PastDenials[], io: Io): string {
  const key = printable(given);
  if (all.length === 0)
    return `No denial of ${key} is recorded in the last 24 hours. A store records the 540 most denied keys of each hour, unless it has \`counts: false\`.\n`;
  const around = all.flatMap((past) => {
    const minutes = past.minutes.filter(({ minute }) => Math.abs(minute - time) <= AROUND_MS);
    return minutes.map((each): Row => ({ ...past, ...each }));
  });
  const shown =
    around.length > 0
      ? table(
          io,
          columnsFor(io),
          around.sort((a, b) => a.minute - b.minute),
        )
      : `No denial of ${key} is recorded within 5 minutes of ${instant(io, time)}.\n`;
  return shown + wholeText(all, io);
}

/** The denials of each limiter. Empty if there are none. */
function wholeText(all: readonly PastDenials[], io: Io): string {
  const whole = all.map(
    ({ name, count: denials, first, last }) =>
      `${printable(name)}: ${many(denials, 'denial')} from ${clock(io, first)} to ${instant(io, last)} (${age(last)} ago)\n`,
  );
  return whole.length === 0 ? '' : `\nIn the last 24 hours:\n${whole.join('')}`;
}

const columnsFor = (io: Io): Table<Row> => ({
  [titled(io, 'minute')]: ({ minute }) => clock(io, minute).slice(0, 16),
  limiter: ({ name }) => printable(name),
  key: ({ key, dimension, within }) =>
    `${prefixOf(dimension)}${printable(key)}${within === undefined ? '' : ` (within ${printable(within)})`}`,
  'denied by': ({ policy, reason }) => printable(policy ?? reason ?? ''),
  denials: ({ count: denials }) => count(denials),
});

/** The last moment with a time of day, a time, or a moment of some age ago. @throws CliError `USAGE` */
function timeOf(text: string, now: number, { isLocal }: Io): number {
  const typed = typedMoment(text);
  // A time without a zone is in that of the answer.
  const zone = isLocal ? undefined : 'Z';
  if (typed) return momentIn('--at', typed, { zone, isPast: true, now }).getTime();
  if (/^\d+\s*[a-z]+$/i.test(text)) return now - durationOf(text, '--at');
  throw usageError(
    '--at: pass a time of day such as 03:12, a time such as 2026-11-29T03:12Z, or an age such as 2h.',
  );
}
