/** Times in logs: ISO 8601, the Common Log Format's, or a number since the epoch. */

const CLF = /^(\d{2})\/([A-Za-z]{3})\/(\d{4}):(\d{2}:\d{2}:\d{2}(?:\.\d+)?)(?: ([+-]\d{4}))?$/;
/** A date alone is not the time of a request. */
const ISO =
  /^(\d{4})([-/])(\d{2})\2(\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)\s?(Z|[+-]\d{2}(?::?\d{2})?)?$/i;

/** The range of plausible times of requests. */
const EARLIEST = Date.UTC(1990, 0);
const LATEST = Date.UTC(2100, 0);

/**
 * The size of a number shows its unit: seconds, milliseconds, microseconds or nanoseconds. These limits are for the years 1973 to 5138.
 */
const UNITS: readonly (readonly [below: number, perMillisecond: number])[] = [
  [1e11, 0.001],
  [1e14, 1],
  [1e17, 1e3],
  [Infinity, 1e6],
];

let lastText = '';
let lastTime: number | undefined;

/** Returns milliseconds since the epoch, or `undefined` for an unreadable time. A time without a zone is UTC. */
export function parseTime(value: unknown): number | undefined {
  if (typeof value === 'number') return plausible(fromNumber(value));
  if (typeof value !== 'string') return undefined;
  // Neighbouring lines often have the same time.
  if (value === lastText) return lastTime;
  lastTime = plausible(fromText(value));
  lastText = value;
  return lastTime;
}

function fromNumber(value: number): number {
  const [, perMillisecond] = UNITS.find(([below]) => value < below) ?? [0, NaN];
  return Math.round(value / perMillisecond);
}

function fromText(text: string): number {
  const clf = CLF.exec(text);
  if (clf) return Date.parse([...clf.slice(1, 5), clf[5] ?? '+0000'].join(' '));
  const iso = ISO.exec(text);
  if (!iso) return /^\d+(\.\d+)?$/.test(text) ? fromNumber(Number(text)) : NaN;
  const [, year, , month, day, time, zone = 'Z'] = iso;
  // A zone may be whole hours, as PostgreSQL writes it.
  const offset = zone.length === 3 ? `${zone}:00` : zone;
  return Date.parse(`${year}-${month}-${day}T${time!.replace(',', '.')}${offset}`);
}

const plausible = (time: number): number | undefined =>
  time >= EARLIEST && time < LATEST ? time : undefined;
