import { createHash } from 'node:crypto';
import type { Response } from 'express';
import type { DraftHeadersVersion, RateLimitInfo } from './types.js';

/** The data of the header fields of one decision. */
export interface Told {
  readonly info: RateLimitInfo;
  readonly windowMs: number;
  readonly denied: boolean;
  /** The policy's name. Only draft 8 has it. */
  readonly name: string;
}

/** The responses on which a limiter has already written. */
const WRITTEN = Symbol('headgate.written');

/** Writes `X-RateLimit-*` and the fields of a draft. Fields with room for one quota keep the tightest one. Lists have all quotas. */
export function writeHeaders(
  response: Response,
  told: Told,
  legacy: boolean,
  draft: DraftHeadersVersion | false,
): void {
  if (response.headersSent) return;
  const marked = response as { [WRITTEN]?: boolean };
  const stacked = marked[WRITTEN] === true;
  marked[WRITTEN] = true;
  const tighterBefore = (remaining: unknown): boolean =>
    stacked && !told.denied && remaining !== undefined && Number(remaining) <= told.info.remaining;
  if (legacy && !tighterBefore(response.getHeader('X-RateLimit-Remaining'))) legacyFields(response, told);
  if (draft === 'draft-6') {
    policyField(response, told, stacked);
    if (!tighterBefore(response.getHeader('RateLimit-Remaining'))) separateFields(response, told);
  } else if (draft === 'draft-7') {
    policyField(response, told, stacked);
    const earlier = response.getHeader('RateLimit');
    const [, remaining] = /remaining=(\d+)/.exec(typeof earlier === 'string' ? earlier : '') ?? [];
    if (!tighterBefore(remaining)) combinedField(response, told);
  } else if (draft === 'draft-8') {
    structuredFields(response, told);
  }
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
  response.setHeader('Date', new Date().toUTCString());
  response.setHeader('X-RateLimit-Reset', String(Math.ceil(info.resetTime.getTime() / 1000)));
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

function policyField(response: Response, { info, windowMs }: Told, stacked: boolean): void {
  const own = `${info.limit};w=${Math.ceil(windowMs / 1000)}`;
  const earlier = stacked ? response.getHeader('RateLimit-Policy') : undefined;
  response.setHeader('RateLimit-Policy', typeof earlier === 'string' ? `${earlier}, ${own}` : own);
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
