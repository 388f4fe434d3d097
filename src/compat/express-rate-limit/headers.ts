import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';
import type { AugmentedRequest, DraftHeadersVersion, RateLimitInfo } from './types.js';

/** The data of the header fields of one decision. */
export interface Told {
  readonly info: RateLimitInfo;
  readonly windowMs: number;
  readonly denied: boolean;
  /** The policy's name. Only draft 8 has it. */
  readonly name: string;
  readonly legacy: boolean;
  readonly draft: DraftHeadersVersion | false;
  readonly response: Response;
  /** The decision of the limiter that wrote on the response before. */
  readonly before: Told | undefined;
  /** The number of limiters that wrote on the response before. */
  readonly depth: number;
}

class Itself {
  constructor(object: object) {
    return object;
  }
}

/**
 * Adds the decision to the property of the request, as a private field, which programs and comparisons of objects do not see. All these
 * objects have one hidden class, so the field is cheap. A weak map by the response, or a property of the response, takes V8 longer.
 */
class Stamp extends Itself {
  readonly #told: Told;

  constructor(info: RateLimitInfo, told: Told) {
    super(info);
    this.#told = told;
  }

  static read(value: unknown): Told | undefined {
    return typeof value === 'object' && value !== null && #told in value ? value.#told : undefined;
  }
}

/** The properties of requests in which limiters keep their decisions: one, unless programs set `requestPropertyName`. */
const properties: string[] = [];

/** Registers the property in which a limiter keeps its decisions. */
export function keepIn(property: string): void {
  if (!properties.includes(property)) properties.push(property);
}

/** The last decision of which fields were written on the response. */
export function latestOn(request: Request, response: Response): Told | undefined {
  let latest: Told | undefined;
  for (const property of properties) {
    const told = Stamp.read((request as AugmentedRequest)[property]);
    if (told?.response === response && told.depth >= (latest?.depth ?? 0)) latest = told;
  }
  return latest;
}

/** Writes `X-RateLimit-*` and the fields of a draft. Fields with room for one quota keep the tightest one. Lists have all quotas. */
export function writeHeaders(response: Response, told: Told): void {
  if (response.headersSent) return;
  new Stamp(told.info, told);
  const { legacy, draft } = told;
  if (legacy && isShown(told, 'legacy')) legacyFields(response, told);
  if (draft === 'draft-8') return structuredFields(response, told);
  // The program may have written a draft that is not known, which has been reported.
  if (draft !== 'draft-6' && draft !== 'draft-7') return;
  response.setHeader('RateLimit-Policy', policiesOf(told));
  if (!isShown(told, 'draft')) return;
  if (draft === 'draft-6') separateFields(response, told);
  else combinedField(response, told);
}

/** Whether the fields show this decision, and not that of an earlier limiter whose quota is tighter. */
function isShown(told: Told, by: 'legacy' | 'draft'): boolean {
  return told.before === undefined || shown(told, told[by], by) === told;
}

function shown(told: Told | undefined, value: unknown, by: 'legacy' | 'draft'): Told | undefined {
  if (!told) return undefined;
  const earlier = shown(told.before, value, by);
  if (told[by] !== value) return earlier;
  return earlier && !told.denied && earlier.info.remaining <= told.info.remaining ? earlier : told;
}

/** The policies of all limiters so far, as drafts 6 and 7 list them. */
function policiesOf({ info, windowMs, before }: Told): string {
  const own = `${info.limit};w=${Math.ceil(windowMs / 1000)}`;
  let earlier = before;
  while (earlier && earlier.draft !== 'draft-6' && earlier.draft !== 'draft-7') earlier = earlier.before;
  return earlier ? `${policiesOf(earlier)}, ${own}` : own;
}

export function writeRetryAfter(response: Response, told: Told, seconds: number | undefined): void {
  if (response.headersSent) return;
  response.setHeader('Retry-After', String(seconds ?? secondsToReset(told)));
}

function legacyFields(response: Response, { info }: Told): void {
  response.setHeader('X-RateLimit-Limit', String(info.limit));
  response.setHeader('X-RateLimit-Remaining', String(info.remaining));
  if (!(info.resetTime instanceof Date)) return;
  // A client whose clock is wrong compares the reset with this date.
  response.setHeader('Date', dateNow());
  response.setHeader('X-RateLimit-Reset', String(Math.ceil(info.resetTime.getTime() / 1000)));
}

let dateSecond = 0;
let dateText = '';

/** The text of this second, which all responses share. */
function dateNow(): string {
  const second = Math.floor(Date.now() / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = new Date(second * 1000).toUTCString();
  }
  return dateText;
}

function separateFields(response: Response, told: Told): void {
  response.setHeader('RateLimit-Limit', String(told.info.limit));
  response.setHeader('RateLimit-Remaining', String(told.info.remaining));
  response.setHeader('RateLimit-Reset', String(secondsToReset(told)));
}

function combinedField(response: Response, told: Told): void {
  const { limit, remaining } = told.info;
  response.setHeader('RateLimit', `limit=${limit}, remaining=${remaining}, reset=${secondsToReset(told)}`);
}

function structuredFields(response: Response, told: Told): void {
  const { info, windowMs } = told;
  const name = String(told.name).replace(/["\\]/g, '\\$&');
  const key = createHash('sha256').update(String(info.key)).digest('hex').slice(0, 12);
  const partition = Buffer.from(key).toString('base64');
  response.append('RateLimit', `"${name}"; r=${info.remaining}; t=${secondsToReset(told)}`);
  response.append(
    'RateLimit-Policy',
    `"${name}"; q=${info.limit}; w=${Math.ceil(windowMs / 1000)}; pk=:${partition}:`,
  );
}

/** The seconds until the reset. If the store does not tell the time, it is a whole window. */
function secondsToReset({ info, windowMs }: Told): number {
  const { resetTime } = info;
  if (!resetTime) return Math.ceil(windowMs / 1000);
  return Math.max(0, Math.ceil((resetTime.getTime() - Date.now()) / 1000));
}
