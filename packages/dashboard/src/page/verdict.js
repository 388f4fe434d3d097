// The answers of all limiters to a key, in a sentence.
import { policyParts } from './command.js';
import { count, many, otherDenial, printable } from './text.js';

export const MINUTE_MS = 60_000;

/** The age up to which a denial matters beside the present answer, ms. */
const RECENT_MS = 15 * MINUTE_MS;

/** The most limiters that a sentence names. */
const MAX_NAMES = 3;

/** The limiter, the dimension and the shared limit of an answer, as text. @param {any} view @returns {string} */
export const placeOf = ({ name, dimension, within }) => JSON.stringify([name, dimension, within]);

/** The dimensions in which a policy counts requests. @param {string} text */
function dimensionsOf(text) {
  const { dimension, rest } = policyParts(text);
  const [, share = dimension] = / share (\S+)/.exec(rest) ?? [];
  return [dimension, share];
}

/**
 * Whether a limiter has no limit in the dimension of an answer, so that it can only ban the key. Other answers without a verdict are unknown.
 *
 * @param {any} view @param {any} row the limiter, if it is known
 */
export function hasNoLimit({ allowed, dimension, warnings }, row) {
  if (allowed !== null || !row || row.dynamic) return false;
  if (warnings.some((/** @type {any} */ { code }) => code === 'UNANSWERED')) return false;
  const texts = [row.policies, ...Object.values(row.tiers)].flat();
  return texts.length > 0 && !texts.some((text) => dimensionsOf(text).includes(dimension));
}

/**
 * The dimension of the limit or the ban of a past denial, if it is of another key of the requests. Otherwise, or if it is unknown, undefined.
 *
 * @param {any} past @param {any} minute @param {any} row the limiter, if it is known @returns {string | undefined}
 */
export function otherDimension({ dimension }, { policy, reason }, row) {
  const texts = row ? [row.policies, ...Object.values(row.tiers)].flat() : [];
  const denying =
    reason === 'banned'
      ? (row?.bansBy ?? [])
      : texts.filter((text) => policyParts(text).name === policy).flatMap(dimensionsOf);
  return denying.includes(dimension) ? undefined : denying[0];
}

/**
 * The denials of the last minutes, which the present answer hides, by their limiters. Empty without one.
 *
 * @param {any[]} denials @param {(at: number) => string} timeText @param {number} [now] @returns {string}
 */
export function recentText(denials, timeText, now = Date.now()) {
  const from = now - RECENT_MS;
  const recent = denials.filter(({ last }) => new Date(last).getTime() > from);
  if (recent.length === 0) return '';
  const counts = new Map();
  for (const { name, minutes } of recent)
    for (const { minute, count: n } of minutes)
      if (minute > from - MINUTE_MS) counts.set(name, (counts.get(name) ?? 0) + n);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  const texts = [
    ...sorted.slice(0, 1).map(([name, n]) => `${many(n, 'denial')} in ${printable(name)}`),
    ...sorted.slice(1, MAX_NAMES).map(([name, n]) => `${count(n)} in ${printable(name)}`),
    ...(sorted.length > MAX_NAMES ? [`others in ${many(sorted.length - MAX_NAMES, 'limiter')}`] : []),
  ];
  const last = Math.max(...recent.map((each) => new Date(each.last).getTime()));
  return `${joined(texts)} in the last 15 minutes, the last ${timeText(last)}`;
}

/** Texts with "and" before the last. @param {string[]} texts */
const joined = (texts) =>
  texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;

/** The limiters of some answers. @param {any[]} views */
const namesOf = (views) => printable([...new Set(views.map(({ name }) => name))].join(', '));

/** @param {any} view */
const tierPhrase = ({ tier }) => (tier ? `in tier ${printable(tier)}` : 'without a tier');

/**
 * The sentence about all answers, and its color: bad, good, or empty if neither is certain.
 *
 * @param {any[]} views
 * @param {(name: string) => any} rowOf the limiter of a name
 * @param {string} recent see `recentText`
 * @returns {{ text: string, mood: string }}
 */
export function verdictOf(views, rowOf, recent) {
  const judged = views.filter((view) => !hasNoLimit(view, rowOf(view.name)));
  const likely = judged.filter((view) => view.likely);
  const denied = likely.filter(({ allowed }) => allowed === false);
  // The tier of the key is unknown. It is certainly denied if all tiers that it may have deny it.
  const others = (/** @type {any} */ view) =>
    likely.filter((each) => placeOf(each) === placeOf(view) && each.allowed !== false);
  const certain = denied.filter((view) => others(view).length === 0);
  if (certain.length > 0) return { text: `Denied by ${deniedText(certain)}`, mood: 'bad' };
  if (views.length === 0) return { text: 'No limiter is known', mood: '' };
  const had = denied.find(({ hadTier }) => hadTier);
  if (had) {
    const text = `Denied by ${printable(had.name)} ${tierPhrase(had)}, as its requests were before the limits changed`;
    return { text, mood: 'bad' };
  }
  const [first] = denied;
  if (first) {
    const own = denied.filter((view) => placeOf(view) === placeOf(first));
    const admitted = others(first).filter(({ allowed }) => allowed === true);
    const but = admitted.length > 0 ? `not ${admitted.map(tierPhrase).join(', ')}` : 'unknown otherwise';
    const text = `Denied by ${printable(first.name)} ${own.map(tierPhrase).join(', ')}, ${but}: its charges do not show its tier`;
    return { text, mood: '' };
  }
  const other = otherDenial(likely);
  if (other !== undefined) return { text: other, mood: '' };
  const unknown = likely.filter(({ allowed }) => allowed === null);
  const mood = unknown.length > 0 || recent !== '' ? '' : 'good';
  return { text: admittedText(judged, unknown, recent, views), mood };
}

/** The limiters that deny, each with the tier if only one is likely. @param {any[]} views */
function deniedText(views) {
  const texts = views.map((view) => {
    const isOnly = views.filter((each) => placeOf(each) === placeOf(view)).length === 1;
    return `${printable(view.name)}${isOnly && view.tier ? ` ${tierPhrase(view)}` : ''}`;
  });
  return [...new Set(texts)].join(', ');
}

/** The answer to a key that no limiter denies now. @param {any[]} judged @param {any[]} unknown @param {string} recent @param {any[]} views */
function admittedText(judged, unknown, recent, views) {
  if (unknown.length > 0 && unknown.length === judged.length)
    return `Unknown: no answer in ${namesOf(unknown)}`;
  const [every, end] =
    unknown.length > 0
      ? ['every other limiter', `. No answer in ${namesOf(unknown)}`]
      : ['every limiter', ''];
  if (recent) return `Admitted now by ${every}, after ${recent}${end}`;
  if (unknown.length > 0 || views.some((each) => each.stored)) return `Admitted by ${every}${end}`;
  return 'Admitted. No limiter has a record of this key';
}
