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

/** The time of day. @param {number | string} at */
const clockTime = (at) =>
  new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', ...zoneOptions() });

/** The day and the time of day. @param {number | string} at */
export function fullTimeOf(at) {
  const day = new Date(at).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', ...zoneOptions() });
  return `${day} ${clockTime(at)} ${zone()}`;
}

/** The time of day, with the day if it is another one. @param {number | string} at */
export function atTime(at) {
  const day = (/** @type {number | string} */ time) =>
    new Date(time).toLocaleDateString('en-GB', zoneOptions());
  return day(at) === day(Date.now()) ? clockTime(at) : fullTimeOf(at);
}
