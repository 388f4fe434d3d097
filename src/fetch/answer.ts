/** A quota of a server, as an answer describes it. Missing or unreadable figures are undefined. */
export interface PartnerQuota {
  /** Units per window. */
  readonly limit?: number | undefined;
  /** Units that remain. */
  readonly remaining?: number | undefined;
  /** The time until the quota is full again, ms. */
  readonly resetMs?: number | undefined;
  /** The length of the quota's window, ms. */
  readonly windowMs?: number | undefined;
}

/** The limits described by an answer of a server. */
export interface Answer {
  /** The value of `Retry-After`, ms. */
  readonly retryAfterMs: number | undefined;
  /** The quotas that the answer describes. */
  readonly quotas: readonly PartnerQuota[];
}

/** The fields with a delay in milliseconds (OpenAI; Azure Cosmos DB and Search; others), and those with seconds or a date. */
const DELAYS_MS = ['retry-after-ms', 'x-ms-retry-after-ms', 'x-retry-after-ms'];
const DELAYS = ['retry-after', 'x-ratelimit-retry-after', 'x-retry-after'];

/** Reads a header field: `(name) => headers.get(name)`. */
export type Field = (name: string) => string | null | undefined;

/** The limits on a server's fields: longer fields are ignored, and so are further quotas. */
const MAX_FIELD_LENGTH = 2048;
const MAX_QUOTAS = 16;

/** The names of a quota's fields: `*` is `limit`, `remaining`, `reset`, `reset-after`, `next`, `reset-ms` or `reset-after-ms`. */
const SEPARATE_FIELDS = [
  ...['ratelimit-*', 'x-ratelimit-*', 'x-rate-limit-*', 'rate-limit-*'],
  ...['requests', 'tokens', 'requests-minute', 'requests-day', 'tokens-minute', 'tokens-day'].map(
    (unit) => `x-ratelimit-*-${unit}`,
  ),
  ...['requests', 'tokens'].map((unit) => `x-rate-limit-*-${unit}`),
  ...['requests', 'endpoint-requests', 'complexity'].map((unit) => `x-ratelimit-${unit}-*`),
  ...['requests', 'tokens', 'input-tokens', 'output-tokens'].map((unit) => `anthropic-ratelimit-${unit}-*`),
  ...['x-app-limit-24hour-*', 'x-user-limit-24hour-*', 'x-sib-ratelimit-*'],
];

/**
 * Reads the limits that an answer describes: `Retry-After` (seconds, or a date), `RateLimit` and `RateLimit-Policy` of the drafts 6 to 11,
 * `X-RateLimit-*` (GitHub and many others), and the fields of OpenAI, Azure, Anthropic, X, Discord and Linear. Unreadable figures are
 * omitted. Never throws.
 *
 * @param field reads a header field by its lower-case name
 * @param now the current time, ms since 1970. For dates, the server's clock counts if the answer has `Date`
 */
export function readAnswer(field: Field, now = Date.now()): Answer {
  const read: Field = (name) => {
    const text = field(name);
    return typeof text === 'string' && text.length <= MAX_FIELD_LENGTH ? once(text.trim()) : undefined;
  };
  const sent = Date.parse(read('date') ?? '');
  const clock = Number.isNaN(sent) ? now : sent;
  const quotas = [...listed(read), ...separate(read, clock)].slice(0, MAX_QUOTAS);
  const first = (names: readonly string[]) => names.map(read).find((text) => text !== undefined);
  const exact = longest(first(DELAYS_MS), (text) => natural(text.split('.')[0]));
  const retryAfterMs = exact ?? longest(first(DELAYS), (text) => timeUntil(text, clock));
  return { retryAfterMs, quotas };
}

/** The values of a field. If several programs on the way have written it, they are numbers joined by commas. Dates contain a comma, too. */
function valuesOf(text: string | null | undefined): readonly string[] {
  if (!text) return [];
  const values = text.split(/,\s*/);
  return values.every((each) => /^\d[^\s:]*$/.test(each)) ? values : [text];
}

function longest(
  text: string | null | undefined,
  time: (text: string) => number | undefined,
): number | undefined {
  const times = valuesOf(text).map(time);
  return times.includes(undefined) || times.length === 0 ? undefined : Math.max(...(times as number[]));
}

/** Removes the copies of a field that a proxy repeated with the same value. Dates contain a comma, too. */
function once(text: string): string {
  const parts = text.split(/,\s*/);
  for (const period of [1, 2]) {
    const isRepeated = parts.length > period && parts.length % period === 0;
    if (isRepeated && parts.every((part, i) => part === parts[i % period]))
      return parts.slice(0, period).join(', ');
  }
  return text;
}

/** The quotas of `RateLimit` and `RateLimit-Policy`, whose items are joined by name. */
function listed(read: Field): PartnerQuota[] {
  const states = itemsOf(read('ratelimit'));
  const policies = itemsOf(read('ratelimit-policy'));
  const single = states[0];
  if (single && natural(single.params.get('remaining')) !== undefined) {
    // Draft 7 has a single quota in the field: `limit=100, remaining=50, reset=30`.
    const get = (name: string) => natural(states.map(({ params }) => params.get(name)).find(Boolean));
    const limit = get('limit');
    const policy = policies.find(({ name }) => natural(name) === limit);
    return [{ limit, remaining: get('remaining'), resetMs: ms(get('reset')), windowMs: windowOf(policy) }];
  }
  return states.map(({ name, params }) => {
    const policy = policies.find((each) => each.name === name);
    return {
      limit: natural(policy?.params.get('q')),
      remaining: natural(params.get('r')),
      resetMs: ms(natural(params.get('t'))),
      windowMs: windowOf(policy),
    };
  });
}

interface Item {
  readonly name: string;
  readonly params: ReadonlyMap<string, string>;
}

/** The members of a list, and the parts of a member. Commas and semicolons within a string are not separators. */
const MEMBERS = /(?:"(?:[^"\\]|\\.)*"|[^,])+/g;
const PARTS = /(?:"(?:[^"\\]|\\.)*"|[^;])+/g;

/** Parses a structured list. The members of a dictionary have no name, so every member becomes a parameter of the first item. */
function itemsOf(text: string | null | undefined): Item[] {
  if (!text) return [];
  const members = text.match(MEMBERS) ?? [];
  if (/^\s*(limit|remaining|reset)=/.test(text)) return [{ name: '', params: paramsOf(members) }];
  return members.map((item) => {
    const [name = '', ...params] = item.match(PARTS) ?? [];
    return { name: name.trim().replace(/^"|"$/g, ''), params: paramsOf(params) };
  });
}

function paramsOf(texts: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    texts.map((text) => {
      const at = text.indexOf('=');
      return [text.slice(0, at).trim(), text.slice(at + 1).trim()];
    }),
  );
}

const windowOf = (policy: Item | undefined): number | undefined => ms(natural(policy?.params.get('w')));

function separate(read: Field, clock: number): PartnerQuota[] {
  const quotas: PartnerQuota[] = [];
  for (const pattern of SEPARATE_FIELDS) {
    const get = (word: string) => read(pattern.replace('*', word));
    // Discord rounds its date to seconds, and sends the remaining time exactly. Akamai sends the end of a denial.
    const exact = get('reset-after-ms') ?? get('reset-ms');
    const reset = exact ?? get('reset-after') ?? get('reset') ?? get('next');
    const until = (text: string) =>
      exact === undefined ? timeUntil(text, clock) : millisecondsUntil(text, clock);
    const [lefts, resets, limits] = [valuesOf(get('remaining')), valuesOf(reset), valuesOf(get('limit'))];
    // Several programs on the way, each with a limit of its own, have written the fields.
    const count = lefts.length > 1 ? lefts.length : 1;
    for (let i = 0; i < count; i++) {
      const [left] = itemsOf(lefts[i]);
      const remaining = unitsOf(left);
      const resetMs = count > 1 && resets.length === count ? until(resets[i]!) : longest(reset, until);
      if (remaining === undefined && resetMs === undefined) continue;
      const totals = itemsOf(count > 1 && limits.length === count ? limits[i] : get('limit'));
      const limit = unitsOf(totals[0]);
      const policy = totals.find((each) => unitsOf(each) === limit && each.params.has('w'));
      const windowMs = windowOf(left) ?? windowOf(policy);
      quotas.push({ limit, remaining, resetMs, ...(windowMs !== undefined && { windowMs }) });
    }
  }
  return quotas;
}

function millisecondsUntil(text: string, clock: number): number | undefined {
  const number = natural(text.split('.')[0]);
  return number === undefined || number < 1000 * MIN_DATE_SECONDS ? number : Math.max(0, number - clock);
}

/** Parses whole units, also `0.0` from Reddit. */
function unitsOf(item: Item | undefined): number | undefined {
  return natural(/^(\d+)(\.\d+)?$/.exec(item?.name ?? '')?.[1]);
}

/** The boundary between a count of seconds and a date in seconds: the year 2001. */
const MIN_DATE_SECONDS = 1e9;

const UNITS: Readonly<Record<string, number>> = {
  ...{ d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 },
  ...{ us: 1e-3, µs: 1e-3, ns: 1e-6 },
};
const LENGTH = /([\d.]+)(ms|us|µs|ns|[dhms])/g;

/** Parses a time: seconds, a time since 1970 in s, ms, µs or ns, a date, or a duration such as `6m0s`. */
function timeUntil(text: string, clock: number): number | undefined {
  if (/^\d+(\.\d+)?$/.test(text)) {
    const number = Number(text);
    if (number < MIN_DATE_SECONDS) return Math.ceil(number * 1000);
    return Math.max(0, Math.ceil(number * epochUnit(number)) - clock);
  }
  if (/^(\d+(\.\d+)?(ms|us|µs|ns|[dhms]))+$/.test(text)) {
    let sum = 0;
    for (const [, number, unit] of text.matchAll(LENGTH)) sum += Number(number) * UNITS[unit!]!;
    return Math.ceil(sum);
  }
  // A date has a time of day. Without this check, `5, 10` from a repeated field would be a day in 2001.
  const date = /\d:\d\d/.test(text) ? Date.parse(inUtc(text)) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - clock);
}

/** The unit of a time since 1970, ms. Each unit has three digits more than the previous one. */
function epochUnit(number: number): number {
  return [1000, 1, 1e-3].find((_, i) => number < MIN_DATE_SECONDS * 1000 ** (i + 1)) ?? 1e-6;
}

/** Makes a date without a zone UTC instead of this machine's zone. A zone's name in parentheses is a comment. */
function inUtc(text: string): string {
  const date = text.replace(/ *\([^)]*\)$/, '');
  if (/(z|ut|[a-z]{3,4}|[+-]\d\d(:?\d\d)?)$/i.test(date)) return date;
  return /^\d{4}-\d\d-\d\d[ T]/.test(date) ? `${date.replace(' ', 'T')}Z` : `${date} GMT`;
}

function natural(text: string | null | undefined): number | undefined {
  return text && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const ms = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : seconds * 1000;
