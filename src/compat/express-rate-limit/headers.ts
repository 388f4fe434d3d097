import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';
import type { AugmentedRequest, DraftHeadersVersion, RateLimitInfo } from './types.js';

export interface FieldData {
  readonly info: RateLimitInfo;
  readonly windowMs: number;
  readonly denied: boolean;
  /** The policy's name, used only by draft 8. */
  readonly name: string;
  readonly legacy: boolean;
  readonly draft: DraftHeadersVersion | false;
  readonly response: Response;
  /** The previous limiter's data on the same response. */
  readonly before: FieldData | undefined;
  /** The number of limiters that wrote to the response before. */
  readonly depth: number;
}

class Itself {
  constructor(object: object) {
    return object;
  }
}

/**
 * Adds the decision to the property of the request, as a private field, invisible to programs and comparisons of objects. All stamped
 * objects have one hidden class, so the field is cheap. A weak map by the response, or a property of the response, takes V8 longer.
 */
class Stamp extends Itself {
  readonly #data: FieldData;

  constructor(info: RateLimitInfo, data: FieldData) {
    super(info);
    this.#data = data;
  }

  static read(value: unknown): FieldData | undefined {
    return typeof value === 'object' && value !== null && #data in value ? value.#data : undefined;
  }
}

/** The properties of requests with decisions of limiters: one property, unless programs set `requestPropertyName`. */
const properties: string[] = [];

export function keepIn(property: string): void {
  if (!properties.includes(property)) properties.push(property);
}

/** The last decision of which fields were written on the response. */
export function latestOn(request: Request, response: Response): FieldData | undefined {
  let latest: FieldData | undefined;
  for (const property of properties) {
    const data = Stamp.read((request as AugmentedRequest)[property]);
    if (data?.response === response && data.depth >= (latest?.depth ?? 0)) latest = data;
  }
  return latest;
}

/** Sets `X-RateLimit-*` and the fields of a draft. Fields for a single quota keep the tightest quota. Lists contain all quotas. */
export function writeHeaders(response: Response, data: FieldData): void {
  if (response.headersSent) return;
  new Stamp(data.info, data);
  const { legacy, draft } = data;
  if (legacy && isShown(data, 'legacy')) legacyFields(response, data);
  if (draft === 'draft-8') return structuredFields(response, data);
  // An unknown draft has already been reported.
  if (draft !== 'draft-6' && draft !== 'draft-7') return;
  response.setHeader('RateLimit-Policy', policiesOf(data));
  if (!isShown(data, 'draft')) return;
  if (draft === 'draft-6') separateFields(response, data);
  else combinedField(response, data);
}

/** Whether the fields show this decision, and not an earlier limiter's tighter quota. */
function isShown(data: FieldData, by: 'legacy' | 'draft'): boolean {
  return data.before === undefined || shown(data, data[by], by) === data;
}

function shown(data: FieldData | undefined, value: unknown, by: 'legacy' | 'draft'): FieldData | undefined {
  if (!data) return undefined;
  const earlier = shown(data.before, value, by);
  if (data[by] !== value) return earlier;
  return earlier && !data.denied && earlier.info.remaining <= data.info.remaining ? earlier : data;
}

/** The policies of all limiters so far, as drafts 6 and 7 list them. */
function policiesOf({ info, windowMs, before }: FieldData): string {
  const own = `${info.limit};w=${Math.ceil(windowMs / 1000)}`;
  let earlier = before;
  while (earlier && earlier.draft !== 'draft-6' && earlier.draft !== 'draft-7') earlier = earlier.before;
  return earlier ? `${policiesOf(earlier)}, ${own}` : own;
}

export function writeRetryAfter(response: Response, data: FieldData, seconds: number | undefined): void {
  if (response.headersSent) return;
  response.setHeader('Retry-After', String(seconds ?? secondsToReset(data)));
}

function legacyFields(response: Response, { info }: FieldData): void {
  response.setHeader('X-RateLimit-Limit', String(info.limit));
  response.setHeader('X-RateLimit-Remaining', String(info.remaining));
  if (!(info.resetTime instanceof Date)) return;
  // The date lets a client with a wrong clock interpret the reset.
  response.setHeader('Date', dateNow());
  response.setHeader('X-RateLimit-Reset', String(Math.ceil(info.resetTime.getTime() / 1000)));
}

let dateSecond = 0;
let dateText = '';

/** The date of the current second, for all responses in the second. */
function dateNow(): string {
  const second = Math.floor(Date.now() / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = new Date(second * 1000).toUTCString();
  }
  return dateText;
}

function separateFields(response: Response, data: FieldData): void {
  response.setHeader('RateLimit-Limit', String(data.info.limit));
  response.setHeader('RateLimit-Remaining', String(data.info.remaining));
  response.setHeader('RateLimit-Reset', String(secondsToReset(data)));
}

function combinedField(response: Response, data: FieldData): void {
  const { limit, remaining } = data.info;
  response.setHeader('RateLimit', `limit=${limit}, remaining=${remaining}, reset=${secondsToReset(data)}`);
}

function structuredFields(response: Response, data: FieldData): void {
  const { info, windowMs } = data;
  const name = String(data.name).replace(/["\\]/g, '\\$&');
  const key = createHash('sha256').update(String(info.key)).digest('hex').slice(0, 12);
  const partition = Buffer.from(key).toString('base64');
  response.append('RateLimit', `"${name}"; r=${info.remaining}; t=${secondsToReset(data)}`);
  response.append(
    'RateLimit-Policy',
    `"${name}"; q=${info.limit}; w=${Math.ceil(windowMs / 1000)}; pk=:${partition}:`,
  );
}

/** The seconds until the reset, or a whole window if the store does not return the time. */
function secondsToReset({ info, windowMs }: FieldData): number {
  const { resetTime } = info;
  if (!resetTime) return Math.ceil(windowMs / 1000);
  return Math.max(0, Math.ceil((resetTime.getTime() - Date.now()) / 1000));
}
