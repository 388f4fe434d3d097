/** What a server says about one of its quotas. What it does not say is undefined. */
export interface Quota {
  /** Units per window. */
  readonly limit?: number | undefined;
  /** Units that are left. */
  readonly remaining?: number | undefined;
  /** Until the quota is full again, ms. */
  readonly resetMs?: number | undefined;
  /** The length of its window, ms. */
  readonly windowMs?: number | undefined;
}

/** What a server says about its limits in one answer. */
export interface Answer {
  /** Its `Retry-After`, ms. */
  readonly retryAfterMs: number | undefined;
  /** Its quotas. */
  readonly quotas: readonly Quota[];
}

/** Reads a header field: `(name) => headers.get(name)`. */
export type Field = (name: string) => string | null | undefined;

/** A server may write anything. Longer fields are not read, nor are further quotas. */
const LONGEST_FIELD = 2048;
const MOST_QUOTAS = 16;

/** The fields of a quota each: its limit, remaining units and reset. */
const SEPARATE_FIELDS = [
  'ratelimit-*',
  'x-ratelimit-*',
  'x-rate-limit-*',
  ...['requests', 'tokens'].map((unit) => `x-ratelimit-*-${unit}`),
  ...['requests', 'tokens', 'input-tokens', 'output-tokens'].map((unit) => `anthropic-ratelimit-${unit}-*`),
];

/**
 * Reads what a server says about its limits: `Retry-After` (seconds, or a date), `RateLimit` and `RateLimit-Policy` of
 * the drafts 6 to 11, `X-RateLimit-*` (GitHub and many others), and the fields of OpenAI and Anthropic. What cannot be
 * read counts as not said. It never throws.
 *
 * @param field reads a header field by its lower-case name
 * @param now the time by this clock, ms. Dates are read by the server's own clock if it sends `Date`
 */
export function readAnswer(field: Field, now = Date.now()): Answer {
  const read: Field = (name) => {
    const text = field(name);
    return typeof text === 'string' && text.length <= LONGEST_FIELD ? text.trim() : undefined;
  };
  const sent = Date.parse(read('date') ?? '');
  const clock = Number.isNaN(sent) ? now : sent;
  const quotas = [...listed(read), ...separate(read, clock)].slice(0, MOST_QUOTAS);
  const exact = natural(read('retry-after-ms')?.split('.')[0]);
  const text = read('retry-after');
  return { retryAfterMs: exact ?? (text ? timeUntil(text, clock) : undefined), quotas };
}

/** The items of `RateLimit` and `RateLimit-Policy`, joined by their names. */
function listed(read: Field): Quota[] {
  const states = itemsOf(read('ratelimit'));
  const policies = itemsOf(read('ratelimit-policy'));
  const single = states[0];
  if (single && natural(single.params.get('remaining')) !== undefined) {
    // Draft 7 has one quota in the field: `limit=100, remaining=50, reset=30`.
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

/** The items of a structured list. Of a dictionary, the members of which have no name, all are in the first one. */
function itemsOf(text: string | null | undefined): Item[] {
  if (!text) return [];
  if (/^\s*(limit|remaining|reset)=/.test(text)) return [{ name: '', params: paramsOf(text.split(',')) }];
  return text.split(',').map((item) => {
    const [name = '', ...params] = item.split(';');
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

/** Quotas that have a field for each of their numbers. */
function separate(read: Field, clock: number): Quota[] {
  const quotas: Quota[] = [];
  for (const pattern of SEPARATE_FIELDS) {
    const get = (word: string) => read(pattern.replace('*', word));
    const remaining = natural(get('remaining'));
    if (remaining === undefined) continue;
    const limit = natural(get('limit')?.split(/[,;]/)[0]);
    const reset = get('reset');
    quotas.push({ limit, remaining, resetMs: reset ? timeUntil(reset, clock) : undefined });
  }
  return quotas;
}

/** Later than any count of seconds, earlier than any date in seconds: the year 2001. */
const EPOCH = 1e9;

const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** Seconds, a time since 1970 in seconds or ms, a date, or a length of time as in `6m0s`. */
function timeUntil(text: string, clock: number): number | undefined {
  if (/^\d+(\.\d+)?$/.test(text)) {
    const number = Number(text);
    if (number < EPOCH) return Math.ceil(number * 1000);
    return Math.max(0, Math.ceil(number < EPOCH * 1000 ? number * 1000 : number) - clock);
  }
  if (/^(\d+(\.\d+)?(ms|[dhms]))+$/.test(text)) {
    let sum = 0;
    for (const [, number, unit] of text.matchAll(/([\d.]+)(ms|[dhms])/g))
      sum += Number(number) * UNITS[unit!]!;
    return Math.ceil(sum);
  }
  // A date has a time of day. Without this, `5, 10`, which is a field that was sent twice, would be a day of 2001.
  const date = /\d:\d\d/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - clock);
}

function natural(text: string | null | undefined): number | undefined {
  return text && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const ms = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : seconds * 1000;
