import type { Admin, AdminWarning, OverrideResult, OverrideWish } from 'headgate/admin';
import { banEntries, LogEnd, overrideEntries, type Note, type Written } from './entries.js';
import { choice, flag, optional, refuse, text, type Body } from './input.js';
import { resetIn, type Place, type PlaceResult } from './resets.js';
import { onPage } from './words.js';

export interface Changed {
  readonly warnings: readonly AdminWarning[];
  /** The entries of the log, which undo the change. */
  readonly entries: readonly string[];
  /** The result in each place of a reset. */
  readonly places?: readonly PlaceResult[];
}

/** The result of a change, and the entries of the log that it wrote. */
interface Made {
  readonly warnings: readonly AdminWarning[];
  readonly written: readonly Written[];
}

type Change = (admin: Admin, body: Body, note: Note) => Promise<Made>;

/** The most limiters of a reset. */
const MAX_PLACES = 100;

/** The key options of a body: the limiter's exact key, or a typed address or network. */
function keyOptions(body: Body) {
  const dimension = optional(body, 'dimension', text);
  return { ...(dimension !== undefined && { dimension }), ...(flag(body, 'raw') && { raw: true }) };
}

/** The changes that the page can make. Each is one call of the administration, as the command line of the same name makes it. */
const CHANGES: Readonly<Record<string, Change>> = {
  ban: async (admin, body, note) => {
    const options = { ...keyOptions(body), ...note };
    const [key, length] = [anyText(body, 'key'), text(body, 'for')];
    const results = flag(body, 'all')
      ? await admin.banIn('all', key, length, options)
      : [await admin.ban(key, length, { name: text(body, 'name'), ...options })];
    return { warnings: warningsOf(results), written: banEntries(results) };
  },
  unban: async (admin, body, note) => {
    const options = { ...keyOptions(body), ...note, fresh: flag(body, 'fresh') };
    const key = anyText(body, 'key');
    const results = flag(body, 'all')
      ? await admin.unbanIn('all', key, options)
      : [await admin.unban(key, { name: text(body, 'name'), ...options })];
    return { warnings: warningsOf(results), written: banEntries(results) };
  },
  override: async (admin, body, note) => {
    const change = body['change'] as OverrideWish['change'];
    if (change === undefined || change === null) refuse('change: missing. Pass limits, such as 1000/1m.');
    return overrides(await overriding(admin, body, { change, ...lengthOf(body), ...note }));
  },
  remove: async (admin, body, note) =>
    overrides(await overriding(admin, body, { change: undefined, unban: flag(body, 'unban'), ...note })),
};

async function reset(admin: Admin, body: Body, note: Note): Promise<Changed> {
  const { dimension, raw } = keyOptions(body);
  const options = { ...note, ...(raw !== undefined && { raw }), places: placesOf(body, dimension) };
  const results = await resetIn(admin, anyText(body, 'key'), options);
  return {
    warnings: inWords(results.flatMap((each) => each.warnings)),
    entries: [],
    places: results.map(({ warnings: _, ...place }) => place),
  };
}

const inWords = (warnings: readonly AdminWarning[]): AdminWarning[] =>
  warnings.map(({ code, message }) => ({ code, message: onPage(message) }));

const warningsOf = (results: readonly Pick<Made, 'warnings'>[]): readonly AdminWarning[] =>
  results.flatMap((each) => each.warnings);

export const overrides = (results: readonly OverrideResult[]): Made => ({
  warnings: warningsOf(results),
  written: overrideEntries(results),
});

/** The limiters of a reset, each with its dimension. */
function placesOf(body: Body, dimension: string | undefined): Place[] {
  if (!flag(body, 'all'))
    return [{ name: text(body, 'name'), ...(dimension !== undefined && { dimension }) }];
  const { places } = body;
  if (!Array.isArray(places) || places.length === 0 || places.length > MAX_PLACES)
    refuse(`places: pass 1 to ${MAX_PLACES} limiters, such as [{ "name": "api" }].`);
  return places.map((place: unknown) => {
    const given = (typeof place === 'object' && place !== null ? place : {}) as Body;
    const by = optional(given, 'dimension', text);
    return { name: text(given, 'name'), ...(by !== undefined && { dimension: by }) };
  });
}

/** A key may be blank, if `raw` is set. */
function anyText(body: Body, field: string): string {
  const value = body[field];
  return typeof value === 'string' ? value : refuse(`${field}: missing. Pass a text.`);
}

function lengthOf(body: Body): Pick<OverrideWish, 'for' | 'until'> {
  const [span, until] = [optional(body, 'for', text), optional(body, 'until', text)];
  return { ...(span !== undefined && { for: span }), ...(until !== undefined && { until }) };
}

function overriding(admin: Admin, body: Body, wish: Omit<OverrideWish, 'key'>) {
  const { dimension, raw } = keyOptions(body) as { dimension?: string; raw?: true };
  const key = flag(body, 'all') ? undefined : anyText(body, 'key');
  const whole = { ...wish, key, ...(dimension !== undefined && key !== undefined && { dimension }) };
  return admin.overrideMany([whole], { name: text(body, 'name'), ...(raw && { raw }) });
}

/** Makes a change, and finds its entries in the log. @param by the operator; the page cannot set the name */
export async function change(admin: Admin, body: Body, by: string): Promise<Changed> {
  const action = choice('action', String(body['action']), [...Object.keys(CHANGES), 'reset']);
  const reason = text(body, 'reason');
  if (action === 'reset') return reset(admin, body, { by, reason });
  return changed(admin, { by, reason }, () => CHANGES[action]!(admin, body, { by, reason }));
}

/** Makes a change, and finds its entries in the log. */
export async function changed(admin: Admin, note: Note, make: () => Promise<Made>): Promise<Changed> {
  // A log that cannot be read only costs the undo.
  const end = await LogEnd.read(admin).catch(() => undefined);
  const { warnings, written } = await make();
  const entries = await end?.idsOf(written, note).catch(() => []);
  return { warnings: inWords(warnings), entries: entries ?? [] };
}
