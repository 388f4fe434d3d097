import { randomBytes, timingSafeEqual } from 'node:crypto';

/** The cookie with the token that each change repeats in a header field. Other sites can neither read nor set it. */
export const TOKEN_COOKIE = 'headgate-dashboard-token';
const TOKEN_FIELD = 'x-headgate-token';
const PROXY_FIELDS = [
  ...['forwarded', 'via', 'x-real-ip'],
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'],
];

export interface Refusal {
  readonly status: number;
  readonly message: string;
}

/** The URL of a request. Node's requests have a path only. */
export const urlOf = (request: Request): URL => new URL(request.url);

/**
 * Refuses clients of other machines, if nothing identifies them. A proxy on this machine makes all clients local, so its fields count, too.
 *
 * @param hasActions whether there is an option `actions`, which returned no operator
 */
export function refuseRemote(
  request: Request,
  ip: string | undefined,
  hasActions: boolean,
): Refusal | undefined {
  const isForwarded = PROXY_FIELDS.some((name) => request.headers.has(name));
  if (!isForwarded && ip !== undefined && isLoopback(ip) && isLoopback(hostOf(request))) return undefined;
  if (hasActions)
    return {
      status: 403,
      message:
        'The dashboard does not know you: `actions` returned no operator, and other readers are served only on its own machine. If code before it ' +
        "authenticates readers, pass `auth: 'upstream'`. `auth: 'none'` opens it to everybody.",
    };
  return {
    status: 403,
    message:
      'The dashboard serves only clients on its own machine, because it has neither `actions` nor `auth`. Put your authentication before it ' +
      "and pass `actions: (req) => ({ by: req.user.email })`, or `auth: 'upstream'` for a page that changes nothing. `auth: 'none'` opens it to everybody.",
  };
}

/** Refuses reads of data by pages of other sites. A navigation to the page itself may come from anywhere. */
export function refuseForeign(request: Request): Refusal | undefined {
  const site = request.headers.get('sec-fetch-site');
  if (site === null || site === 'same-origin') return undefined;
  return { status: 403, message: 'Only the page of the dashboard may read this address.' };
}

/** Refuses changes that do not come from the page: another site, a form, or a request without the token of its cookie. */
export function refuseForged(request: Request): Refusal | undefined {
  const { headers } = request;
  const type = headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json') return { status: 415, message: 'Pass content-type: application/json.' };
  const site = headers.get('sec-fetch-site');
  // Browsers omit the field on plain HTTP to other machines, where Origin is left.
  const isSame = site === null ? isOwnOrigin(request) : site === 'same-origin';
  if (!isSame) return { status: 403, message: 'The request comes from another site.' };
  const sent = headers.get(TOKEN_FIELD) ?? '';
  if (!isToken(sent) || !isEqual(sent, tokenOf(request) ?? ''))
    return { status: 403, message: 'The token is missing or wrong. Reload the page.' };
  return undefined;
}

/** The token of the request's cookie, if it is valid. */
export function tokenOf(request: Request): string | undefined {
  const cookies = (request.headers.get('cookie') ?? '').split(/; */);
  const value = cookies.find((each) => each.startsWith(`${TOKEN_COOKIE}=`))?.slice(TOKEN_COOKIE.length + 1);
  return value !== undefined && isToken(value) ? value : undefined;
}

export const newToken = (): string => randomBytes(18).toString('base64url');

const isToken = (text: string): boolean => /^[\w-]{24}$/.test(text);

function isEqual(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

function isOwnOrigin(request: Request): boolean {
  const origin = request.headers.get('origin') ?? '';
  return URL.canParse(origin) && new URL(origin).host === request.headers.get('host');
}

function hostOf(request: Request): string {
  const host = request.headers.get('host') ?? urlOf(request).host;
  return host.replace(/:\d*$/, '').replace(/^\[|\]$/g, '');
}

/** Whether a name or an address is of this machine. */
function isLoopback(host: string): boolean {
  return /^(localhost|::1|(::ffff:)?127(\.\d{1,3}){3})$/i.test(host);
}
