import { fieldOf } from '../server-version.js';
import type { Finding } from './finding.js';

export interface MemorySample {
  readonly usedBytes: number;
  /** `maxmemory`, or `null` without a limit. */
  readonly maxBytes: number | null;
  /** The bytes of keys and values, without the buffers of clients, which come and go. */
  readonly dataBytes: number;
  /** The time of the sample by the clock of this process, ms. */
  readonly at: number;
}

/** The share of `maxmemory` from which a server is reported. */
const MAX_SHARE = 0.8;

/** A server that will be full within this time is reported, ms. */
const SOON_MS = 3_600_000;

/** The least growth between two samples that counts, bytes. Buffers and scripts cause smaller differences. */
const MIN_GROWTH_BYTES = 256_000;

/** Parses the answer to `INFO memory`. @returns undefined if the server does not report its memory */
export function memoryOf(info: string, at: number): MemorySample | undefined {
  const used = fieldOf(info, 'used_memory');
  if (used === undefined) return undefined;
  const limit = Number(fieldOf(info, 'maxmemory') ?? 0);
  const dataBytes = Number(fieldOf(info, 'used_memory_dataset') ?? used);
  return { usedBytes: Number(used), maxBytes: limit === 0 ? null : limit, dataBytes, at };
}

/** The growth between two samples, bytes a second. */
export function growthOf(first: MemorySample, last: MemorySample): number {
  return Math.round((1000 * (last.dataBytes - first.dataBytes)) / (last.at - first.at));
}

const MIN_TREND_MS = 60_000;

/**
 * The steady growth, bytes a second, or null if there is no trend: the memory must have grown in each third of at least a minute, so that the
 * jump of a single load by another program is not taken for a growth. The median of the thirds leaves out one that grew by a jump.
 */
export function trendOf(samples: readonly MemorySample[]): number | null {
  const [first] = samples;
  const last = samples.at(-1);
  if (!first || !last || last.at - first.at < MIN_TREND_MS) return null;
  const third = (last.at - first.at) / 3;
  const ends = [1, 2].map((part) => samples.findLast(({ at }) => at <= first.at + part * third)!);
  const marks = [first, ...ends, last];
  const growths = marks.slice(1).flatMap((end, i) => {
    const start = marks[i]!;
    return end.at > start.at ? [growthOf(start, end)] : [];
  });
  if (growths.length < 3 || growths.some((growth) => growth <= 0)) return null;
  return growths.sort((a, b) => a - b)[1]!;
}

/** The time until a server is full at a growth, ms. Null without `maxmemory`, or if the memory does not grow. */
export function fullInMs({ usedBytes, maxBytes }: MemorySample, growth: number): number | null {
  if (maxBytes === null || growth <= 0) return null;
  return Math.round((1000 * Math.max(0, maxBytes - usedBytes)) / growth);
}

/** The finding about a server with `maxmemory`, by two samples. */
export function memoryFound(first: MemorySample, last: MemorySample): Finding {
  const { usedBytes, maxBytes } = last;
  const growth = last.dataBytes - first.dataBytes < MIN_GROWTH_BYTES ? 0 : growthOf(first, last);
  const left = fullInMs(last, growth);
  const isFull = usedBytes >= MAX_SHARE * maxBytes!;
  const share = `${Math.floor((100 * usedBytes) / maxBytes!)} % of maxmemory are in use (${size(usedBytes)} of ${size(maxBytes!)})`;
  const rate = left === null ? '' : `, and at ${size(growth)} a second the memory is full in ${span(left)}`;
  if (!isFull && (left === null || left > SOON_MS))
    return { level: 'ok', code: 'memory', message: `${share}${rate}.` };
  const effect =
    'A full server refuses writes, and onStoreError decides, or it evicts counts and bans. Raise maxmemory, or find the largest limiter by ' +
    '`headgate usage`.';
  return { level: 'warning', code: 'memory', message: `${share}${rate}. ${effect}` };
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

function size(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${Number((bytes / 1000 ** unit).toPrecision(3))} ${UNITS[unit]!}`;
}

/** A time for people, in its largest unit. */
function span(ms: number): string {
  const minutes = Math.ceil(ms / 60_000);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
}
