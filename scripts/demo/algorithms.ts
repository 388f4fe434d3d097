import { HeadgateError, type Policy } from 'headgate';

/** The optional parameters of a request's query. */
export interface Wish {
  limit?: string;
  window?: string;
  burst?: string;
  cost?: string;
  /** How long the handler takes, ms. The concurrency policy needs it. */
  hold?: string;
  /** The client's key. Default: the address. */
  key?: string;
}

export interface Row {
  /** The path of the row, and its policy's name. */
  name: string;
  /** A short description. */
  about: string;
  /** Whether requests take long, because of the policy or of their work. */
  holds?: boolean;
  policies(wish: Wish): Policy[];
}

const LIMIT = 6;
const WINDOW = '2s';

/** `limit` and `window` from the query. Numbers come as text. */
function given({ limit = String(LIMIT), window = WINDOW }: Wish): { limit: number; window: string } {
  return { limit: Number(limit), window };
}

/** The rows of the demo, each with its own path on both servers. */
export const rows: readonly Row[] = [
  {
    name: 'fixed-window',
    about: 'a counter; up to twice the limit around the window’s end',
    policies: (wish) => [{ name: 'fixed-window', algorithm: 'fixed-window', ...given(wish) }],
  },
  {
    name: 'sliding-window',
    about: 'the default; never more than the limit in any window',
    policies: (wish) => [{ name: 'sliding-window', algorithm: 'sliding-window', ...given(wish) }],
  },
  {
    name: 'sliding-log',
    about: 'exact: a unit is back when its own window is over',
    policies: (wish) => [{ name: 'sliding-log', algorithm: 'sliding-log', ...given(wish) }],
  },
  {
    name: 'token-bucket',
    about: 'a burst, then the rate',
    policies: (wish) => [
      {
        name: 'token-bucket',
        algorithm: 'token-bucket',
        ...given(wish),
        ...(wish.burst === undefined ? {} : { burst: Number(wish.burst) }),
      },
    ],
  },
  {
    name: 'gcra',
    about: 'burst 1: evenly spaced',
    policies: (wish) => [
      { name: 'gcra', algorithm: 'gcra', ...given(wish), burst: Number(wish.burst ?? '1') },
    ],
  },
  {
    name: 'leaky-bucket',
    about: 'maxDelay 1 s: held for their turn, then denied',
    holds: true,
    policies: (wish) => [
      {
        name: 'leaky-bucket',
        algorithm: 'leaky-bucket',
        ...given(wish),
        burst: Number(wish.burst ?? '1'),
        maxDelay: '1s',
      },
    ],
  },
  {
    name: 'concurrency',
    about: 'so many at a time; each request takes 400 ms here',
    holds: true,
    policies: ({ limit }) => [
      { name: 'concurrency', algorithm: 'concurrency', limit: Number(limit ?? '2'), lease: '10s' },
    ],
  },
  {
    name: 'several',
    about: 'a burst per second and a window together: all charge, or none does',
    policies: (wish) => [
      { name: 'second', algorithm: 'token-bucket', limit: 4, window: '1s' },
      { name: 'window', algorithm: 'sliding-window', ...given(wish) },
    ],
  },
];

/** How long the handler works on a request, ms. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
export function holdOf(name: string, { hold = name === 'concurrency' ? '400' : '0' }: Wish): number {
  const ms = Number(hold);
  if (Number.isInteger(ms) && ms >= 0 && ms <= 5000) return ms;
  throw new HeadgateError(
    'HEADGATE_INVALID_ARGUMENT',
    `hold: "${hold}" is not a whole number from 0 to 5000.`,
  );
}
