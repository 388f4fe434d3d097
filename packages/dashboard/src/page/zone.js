// Times in one zone for the whole page, which the visitor can switch: that of the browser, or UTC.

const STORED_ZONE = 'headgate-zone';

let isUtc = (() => {
  try {
    return localStorage.getItem(STORED_ZONE) === 'utc';
  } catch {
    return false;
  }
})();

export const zone = () => (isUtc ? 'UTC' : localName());

/** The name of the browser's zone, such as GMT+1. */
function localName() {
  const parts = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'short' }).formatToParts(new Date());
  return parts.find(({ type }) => type === 'timeZoneName')?.value ?? 'local';
}

/** Switches between the zone of the browser and UTC. */
export function switchZone() {
  isUtc = !isUtc;
  try {
    localStorage.setItem(STORED_ZONE, isUtc ? 'utc' : 'local');
  } catch {
    // Without storage, the choice lasts as long as the page.
  }
}

const zoneOptions = () => (isUtc ? { timeZone: 'UTC' } : {});

/** The formats of each zone. A format takes as long to make as hundreds of texts. @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

const FORMATS = /** @type {const} */ ({
  clock: { hour: '2-digit', minute: '2-digit' },
  seconds: { hour: '2-digit', minute: '2-digit', second: '2-digit' },
  day: { day: 'numeric', month: 'short' },
  date: {},
});

/** @param {keyof typeof FORMATS} name @param {number | string} at */
function formatted(name, at) {
  const id = `${name} ${isUtc}`;
  const format = formats.get(id) ?? new Intl.DateTimeFormat('en-GB', { ...FORMATS[name], ...zoneOptions() });
  formats.set(id, format);
  return format.format(new Date(at));
}

/** The day and the time of day. @param {number | string} at @param {'clock' | 'seconds'} [clock] */
export const fullTimeOf = (at, clock = 'clock') =>
  `${formatted('day', at)} ${formatted(clock, at)} ${zone()}`;

/** The time of day, with the day if it is another one. @param {number | string} at @param {'clock' | 'seconds'} [clock] */
export const atTime = (at, clock = 'clock') =>
  formatted('date', at) === formatted('date', Date.now()) ? formatted(clock, at) : fullTimeOf(at, clock);

/**
 * The newest time that a clock of the shown zone has shown, ms since 1970. Undefined for another text.
 *
 * @param {string} clock such as 03:12 @param {number} [now]
 */
export function lastTimeOf(clock, now = Date.now()) {
  const [, hours, minutes] = /^(\d{1,2}):(\d\d)$/.exec(clock) ?? [];
  if (hours === undefined) return undefined;
  const date = new Date(now);
  if (isUtc) date.setUTCHours(Number(hours), Number(minutes), 0, 0);
  else date.setHours(Number(hours), Number(minutes), 0, 0);
  return date.getTime() > now ? date.getTime() - 86_400_000 : date.getTime();
}
