// Texts of numbers, times and keys.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** @param {string} text a text from clients. Invisible characters become escapes, as the command line shows them */
export function printable(text) {
  return text
    .toWellFormed()
    .replace(HIDDEN, (c) => `\\u{${/** @type {number} */ (c.codePointAt(0)).toString(16)}}`);
}

/** @param {any} key a key, or its hash */
export function keyText(key) {
  if (key === undefined) return 'all keys';
  return typeof key === 'string' ? printable(key) : `hash:${key.hash}`;
}

/** The start of a long text. @param {string} text @param {number} most */
export function shortened(text, most = 64) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** @param {number} n */
export const count = (n) => n.toLocaleString('en-US', { maximumFractionDigits: 0 });

/** @param {number} n per second */
export function rate(n) {
  if (n === 0) return '0';
  return n < 10 ? n.toFixed(1).replace(/\.0$/, '') : count(n);
}

/** @param {number} part @param {number} whole */
export function percent(part, whole) {
  if (whole === 0 || part === 0) return '0 %';
  const share = (100 * part) / whole;
  return share < 0.1
    ? '< 0.1 %'
    : `${share < 10 ? share.toFixed(1).replace(/\.0$/, '') : Math.round(share)} %`;
}

const UNITS = /** @type {const} */ ([
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
]);

/** @param {number} ms */
export function span(ms) {
  const at = UNITS.findIndex(([, length]) => ms >= length);
  if (at === -1) return ms <= 0 ? 'now' : '< 1 s';
  const [unit, length] = /** @type {readonly [string, number]} */ (UNITS[at]);
  const whole = Math.floor(ms / length);
  const next = UNITS[at + 1];
  const rest = next && whole < 10 ? Math.floor((ms % length) / next[1]) : 0;
  return next && rest > 0 ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

/** The end of a denial. A lease is renewed while its process lives, so its end is not that of the denial. @param {any} denial */
export function endOf({ retryAfterMs, lacksSlots, deniedFor }) {
  // The limits of the key itself have no end to show.
  if (deniedFor && !lacksSlots && retryAfterMs === 0) return 'with another key of its requests';
  if (!lacksSlots && retryAfterMs === 0) return 'may pass now, at a cost of 1';
  if (!lacksSlots) return retryAfterMs ? `for ${span(retryAfterMs)}` : '';
  const latest = retryAfterMs ? `, in ${span(retryAfterMs)} at the latest if its process died` : '';
  return `until a slot is returned${latest}`;
}

/** @param {number} at ms since 1970 */
export function ago(at) {
  const ms = Date.now() - at;
  if (ms < 5000) return 'just now';
  if (ms < 86_400_000) return `${span(ms).split(' ').slice(0, 2).join(' ')} ago`;
  return `${count(Math.floor(ms / 86_400_000))} d ago`;
}

/** Units of 1,024, as in the configuration of Redis. @param {number} n */
export function bytes(n) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  let size = n;
  while (size >= 1024 && at < units.length - 1) {
    size /= 1024;
    at++;
  }
  return `${size < 10 && at > 0 ? size.toFixed(1) : Math.round(size)} ${units[at]}`;
}

/** @param {number} n @param {string} noun */
export const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : noun.endsWith('s') ? 'es' : 's'}`;

const REASONS = /** @type {Record<string, string>} */ ({
  banned: 'banned',
  denyList: 'deny list',
  'wait-timeout': 'waited too long',
  'queue-full': 'queue full',
  aborted: 'client left',
  'store-error': 'store failed',
  'store-full': 'store full',
});

/** The cause of denials. The sole policy of a limiter needs no name. @param {any} cause */
export function causeText({ name, isReason }) {
  if (isReason) return REASONS[name] ?? printable(name);
  return name === 'default' ? '' : `by ${printable(name)}`;
}

/** The limits of an override. @param {any} change @returns {string} */
export function limitsText(change) {
  if (change === undefined || change === null) return '';
  if (typeof change === 'string') return printable(change);
  if (typeof change === 'number') return span(change);
  if (Array.isArray(change)) return change.map(limitsText).join(', ');
  if (typeof change !== 'object') return printable(String(change));
  if (typeof change.tier === 'string' && Object.keys(change).length === 1)
    return `tier ${printable(change.tier)}`;
  if (Array.isArray(change.policies)) return limitsText(change.policies);
  return Object.entries(change).map(fieldText).join(', ');
}

/** The fields of a change that are lengths of time. */
const TIMES = ['window', 'lease', 'maxDelay'];

/** A policy with its limit, or a field of a change. @param {[name: string, value: any]} field */
function fieldText([name, value]) {
  const shown = printable(name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`));
  if (value === false) return `${shown} off`;
  if (typeof value === 'number') return `${shown} ${TIMES.includes(name) ? span(value) : count(value)}`;
  return `${TIMES.includes(name) ? shown : printable(name)} ${limitsText(value)}`;
}

/** The denials because of another key of the same requests, as text. @param {any[]} views @returns {string | undefined} */
export function otherDenial(views) {
  const { name, deniedLately: denial } = views.find((view) => view.deniedLately) ?? {};
  if (!denial) return undefined;
  const { policy, reason, dimension } = denial;
  const by = dimension === 'key' ? '' : ` (by ${printable(dimension)})`;
  const cause = policy
    ? `${printable(policy)}, a limit of another key`
    : `another key: ${causeText({ name: reason, isReason: true })}`;
  return `Its own limits admit it, but in ${printable(name)} its requests are denied by ${cause}${by}`;
}

/** The origin of a ban, in words: its operator, denials, or the program. @param {any} ban @param {string | null} [rule] the denials after which the limiter bans */
export function originText({ by, from, reason }, rule) {
  const why = reason ? `: ${printable(reason)}` : '';
  if (by) return `by ${printable(by)}${why}`;
  if (from === 'denials') {
    const [, policies] = /^denied by policy (.*)$/s.exec(reason ?? '') ?? [];
    return `automatic, after ${rule ? rule.replace(/, for .*/, '') : 'denials'}${policies ? ` (policy ${printable(policies)})` : why}`;
  }
  if (from === 'program') return `by the program, without a name${why}`;
  if (from === 'unknown')
    return 'origin unknown: automatic, by the program, or by an import of too many keys for the log';
  if (from || reason) return `by somebody without a name${why}`;
  return rule
    ? `automatic, after ${rule.replace(/, for .*/, '')}, or by the program: the log no longer has it`
    : 'by the program: this limiter does not ban by denials';
}
