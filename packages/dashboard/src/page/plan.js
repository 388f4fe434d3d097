// The limits that an override of a limiter with tiers changes.
import { policyParts, scaled } from './command.js';
import { limitsText, printable, span } from './text.js';

/**
 * The policies with a limit: of requests without a tier, and of each tier.
 *
 * @param {any} row
 * @returns {{ tier: string, parts: any[] }[]} the tier is empty for requests without one
 */
export function setsOf({ policies, tiers }) {
  const sets = [['', policies], ...Object.entries(tiers)].map(([tier, texts]) => ({
    tier,
    parts: texts.map(policyParts).filter((/** @type {any} */ part) => part.limit > 0),
  }));
  return sets.filter(({ parts }) => parts.length > 0);
}

/** @param {string} tier */
export const tierText = (tier) => (tier === '' ? 'without a tier' : `in tier ${printable(tier)}`);

/**
 * The choices of an override. A change names policies and not tiers, so a change is for all tiers only if no two of them have a policy of the
 * same name with different limits.
 *
 * @param {any} row
 * @param {any} subject
 * @param {string | undefined} tier the tier of the subject's requests: empty without a tier, undefined if it is unknown
 */
export function planOf(row, subject, tier) {
  const dimension = subject.dimension ?? 'key';
  const sets = setsOf(row);
  const own = sets
    .map((set) => ({
      ...set,
      parts: set.parts.filter((part) => subject.all || part.dimension === dimension),
    }))
    .filter(({ parts }) => parts.length > 0);
  const known = own.findIndex((set) => set.tier === tier);
  const texts = new Map(partsIn(own).map(({ name, rest }) => [name, rest]));
  const isForAll = partsIn(own).every(({ name, rest }) => texts.get(name) === rest);
  return {
    sets: own,
    isForAll,
    isTiered: Object.keys(row.tiers).length > 0,
    /** The tiers that the subject may get. Each tier must count its dimension. */
    tiers: sets.length === own.length ? Object.keys(row.tiers) : [],
    /** The position of the chosen set, or 'all'. Undefined before an operator has chosen. */
    at:
      known >= 0
        ? known
        : isForAll || (subject.all && commonParts({ sets: own, isForAll }).length > 0)
          ? 'all'
          : undefined,
    factor: 1,
  };
}

/** @param {any[]} sets @returns {any[]} */
const partsIn = (sets) => sets.flatMap(({ parts }) => parts);

/** The policies that a change of all tiers can name: all, or those that are the same in each tier. @param {any} plan @returns {any[]} */
export const commonParts = ({ sets, isForAll }) =>
  partsIn(sets).filter(
    ({ name, rest }) =>
      isForAll ||
      sets.every((/** @type {any} */ { parts }) =>
        parts.some((/** @type {any} */ part) => part.name === name && part.rest === rest),
      ),
  );

/** The change that multiplies the limits of the chosen sets, or undefined before a set is chosen. @param {any} plan */
export function changeOf(plan) {
  const { sets, isTiered, at, factor } = plan;
  const parts = at === 'all' ? commonParts(plan) : at === undefined ? [] : sets[at].parts;
  const [only] = parts;
  if (!only) return undefined;
  if (!isTiered && parts.length === 1 && !only.isNamed) return scaled(only.rest, factor);
  return Object.fromEntries(parts.map((/** @type {any} */ part) => [part.name, scaled(part.rest, factor)]));
}

/**
 * The limits that a change concerns, before and after, in each tier.
 *
 * @param {any} plan
 * @param {any} change
 * @returns {{ tier: string, part: any, to: string | undefined, mark: string }[]} `to` is undefined if the limit ends
 */
function effectsOf({ sets }, change) {
  if (change === undefined) return [];
  const target = sets.find((/** @type {any} */ { tier }) => tier !== '' && tier === change.tier);
  return sets.flatMap((/** @type {any} */ { tier, parts }) =>
    parts.flatMap((/** @type {any} */ part) => {
      if (target === undefined && typeof change !== 'string' && !(part.name in change)) return [];
      const after = target?.parts.find((/** @type {any} */ { name }) => name === part.name);
      const to = target ? after?.rest : typeof change === 'string' ? change : change[part.name];
      if (to === part.rest) return [];
      const [old, next] = [paceOf(part.rest), paceOf(to ?? '')];
      const mark = to === undefined || next > old ? 'HIGHER' : next < old ? 'lower' : '';
      return [{ tier, part, to, mark }];
    }),
  );
}

const UNIT_MS = /** @type {Record<string, number>} */ ({ ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 });

/** The units per ms of a policy's text. NaN for another text, which compares as neither higher nor lower. @param {string} text */
function paceOf(text) {
  if (isUnlimited(text)) return Infinity;
  const [, units] = /(\d+)\s*\//.exec(text) ?? [];
  return Number(units) / windowMs(text);
}

/** The window in a policy's text, ms. NaN for a calendar's. @param {string} text */
export function windowMs(text) {
  const [, length = '1', unit = ''] = /\d+\s*\/\s*(\d*)(\w+)/.exec(text) ?? [];
  return Number(length || 1) * (UNIT_MS[unit] ?? NaN);
}

/** The effects in other tiers than the chosen one, as text. @param {any} plan @param {any} change @returns {string[]} */
export const tierTexts = (plan, change) =>
  effectsOf(plan, change)
    .filter(({ tier }) => typeof plan.at !== 'number' || plan.sets[plan.at].tier !== tier)
    .map(
      ({ tier, part, to, mark }) =>
        `${tierText(tier)}: ${printable(part.name)} ${printable(part.rest)} → ${printable(to ?? 'no limit')}${mark && `, ${mark}`}`,
    );

/** The warning about bans by denials of a lower limit, or undefined. @param {any} row @param {any} plan @param {any} change */
export function banText({ banRule, bansBy }, plan, change) {
  const isLower = effectsOf(plan, change).some(
    ({ part, mark }) => mark === 'lower' && bansBy.includes(part.dimension),
  );
  if (!banRule || !isLower) return undefined;
  return `A key is banned after ${banRule}. Keys that do not slow down under the lower limit may be banned, and their bans stay when the override ends.`;
}

/** A policy's text with the limit of an override. Empty if the override ends the limit. @param {string} text @param {any} change */
function overriddenText(text, change) {
  const { name } = policyParts(text);
  const own = typeof change === 'object' ? change[name] : change;
  const limit = typeof own === 'string' ? /\d+\s*\/\s*\S+/.exec(own)?.[0] : undefined;
  if (limit !== undefined) return text.replace(/\d+\s*\/\s*\S+/, limit.replaceAll(' ', ''));
  return own === undefined || own === null || typeof own === 'object' ? text : '';
}

/**
 * A limiter with the limits that an override gives a key, so that a factor multiplies the limits in force, and the subject with the facts that
 * an operator should know before the limits change.
 *
 * @param {any} row @param {any} subject @param {{ override?: any, bannedForMs?: number }} state
 * @returns {[row: any, subject: any]}
 */
export function asOf(row, subject, { override, bannedForMs = 0 }) {
  const { change } = override ?? {};
  const facts = [];
  if (bannedForMs > 0)
    facts.push(
      `The key is banned for ${span(bannedForMs)} more, and stays denied until then, whatever its limits are.`,
    );
  if (override) {
    const isOfAll = override.all ?? override.key === undefined;
    const whose = isOfAll ? 'all keys' : 'this key';
    facts.push(`An override of ${whose} is in force: ${limitsText(change)}.`);
  }
  const given = facts.length > 0 ? { ...subject, facts } : subject;
  if (change === undefined || change === null || Array.isArray(change) || change.policies)
    return [row, given];
  const texts = (/** @type {string[]} */ all) =>
    all.map((text) => overriddenText(text, change)).filter((text) => text !== '');
  const tiers = Object.fromEntries(
    Object.entries(row.tiers).map(([tier, all]) => /** @type {const} */ ([tier, texts(all)])),
  );
  return [{ ...row, policies: texts(row.policies), tiers }, given];
}

/** The change that multiplies the limits of a key, or of all keys. @param {any} row @param {any} subject @param {number} factor @param {string} [tier] */
export function multiplied(row, subject, factor, tier) {
  const plan = { ...planOf(row, subject, tier), factor };
  if (plan.sets.length === 0) return undefined;
  return { action: 'override', ...subject, change: changeOf(plan), plan };
}

/** The window in a policy's text. @param {string} [text] */
const windowIn = (text) => /\d\s*\/\s*(\S+)/.exec(text ?? '')?.[1];

/** The window of a policy, for a limit without one. @param {any} change @param {any} given @param {string} name empty for the sole policy @returns {string | undefined} */
function windowOf({ plan }, given, name) {
  const before = typeof given.change === 'string' ? given.change : given.change?.[name];
  const sets = plan ? (typeof plan.at === 'number' ? [plan.sets[plan.at]] : plan.sets) : [];
  const parts = sets.flatMap((/** @type {any} */ set) => set.parts);
  return windowIn(parts.find((/** @type {any} */ part) => name === '' || part.name === name)?.rest ?? before);
}

/** The limits of a change, in which a number alone is that of the policy's window. @param {any} change @param {any} given the change before the operator wrote @returns {any} */
export function completed(change, given) {
  const texts = change.change;
  const whole = (/** @type {string} */ name, /** @type {any} */ text) => {
    const window = typeof text === 'string' && /^\s*\d+\s*$/.test(text) && windowOf(change, given, name);
    return window ? `${text.trim()}/${window}` : text;
  };
  if (typeof texts === 'string') return whole('', texts);
  if (typeof texts !== 'object' || texts === null || texts.tier !== undefined) return texts;
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, whole(name, text)]));
}

/** Whether a text can be a limit: a number and a window. The server checks its words. @param {any} text */
export const isLimit = (text) =>
  typeof text !== 'string' || isUnlimited(text) || /\d\s*\/\s*(\d|[a-z])/i.test(text);

/** @param {string} text */
const isUnlimited = (text) => /^\s*unlimited\s*$/i.test(text);

/** Whether all limits of a change can be limits. @param {any} change */
export const hasLimits = ({ action, change }) =>
  action !== 'override' ||
  change === undefined ||
  (typeof change === 'string'
    ? isLimit(change)
    : change.tier !== undefined || Object.values(change).every(isLimit));
