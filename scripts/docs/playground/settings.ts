// The settings of the playground, which its form shows and its link keeps.

/** The patterns of requests, with the texts of the form. */
export const PATTERNS = {
  steady: 'Steady',
  bursts: 'Bursts',
  edge: "A window's edge",
  tenants: 'Two tenants and a hog',
  log: 'Your access log',
} as const;

export type Pattern = keyof typeof PATTERNS;

/** The algorithms that are shown beside the policies, each as the text of a policy with the limit and window of the first one. */
export const COMPARED = {
  'sliding-window': (quota: string) => `sliding-window ${quota}`,
  'fixed-window': (quota: string) => `fixed-window ${quota}`,
  'sliding-log': (quota: string) => `sliding-log ${quota}`,
  'token-bucket': (quota: string) => `token-bucket ${quota}`,
  'leaky-bucket': (quota: string) => `leaky-bucket ${quota} burst 1 max-delay 5s`,
  gcra: (quota: string) => `gcra ${quota}`,
} as const satisfies Record<string, (quota: string) => string>;

export type Compared = keyof typeof COMPARED;

export interface Settings {
  /** Texts of policies, one a line. */
  readonly policies: string;
  readonly pattern: Pattern;
  /** Requests a second, on average. */
  readonly rate: number;
  readonly seconds: number;
  /** The time that a request takes, ms, for policies that count slots. */
  readonly takes: number;
  /** `3 in 1m for 5m`, or empty. */
  readonly ban: string;
  /** The longest wait in line, such as `10s`, or empty. */
  readonly wait: string;
  readonly compare: readonly Compared[];
}

export const DEFAULTS: Settings = {
  policies: '10/10s',
  pattern: 'edge',
  rate: 1,
  seconds: 60,
  takes: 500,
  ban: '',
  wait: '',
  compare: ['fixed-window', 'token-bucket', 'leaky-bucket'],
};

/** The policies of the list, by title. Fields that are not there have their defaults. */
export const EXAMPLES: Readonly<Record<string, Partial<Settings>>> = {
  'One limit, four algorithms': {},
  'A burst, then a steady rate': {
    policies: 'second=token-bucket 2/1s burst 10\nminute=60/1m',
    ...{ pattern: 'bursts', rate: 3, compare: [] },
  },
  'Requests wait for their turn (maxDelay)': {
    policies: 'leaky-bucket 2/1s burst 1 max-delay 3s',
    ...{ pattern: 'bursts', rate: 2, compare: [] },
  },
  'Denied requests wait in line': {
    policies: '10/10s',
    ...{ pattern: 'bursts', rate: 1.2, wait: '10s', compare: [] },
  },
  'One limit, shared fairly': {
    policies: '60/10s share tenant',
    ...{ pattern: 'tenants', rate: 12, compare: ['sliding-window'] },
  },
  'A ban after five denials': {
    policies: '5/10s',
    ...{ pattern: 'bursts', rate: 1.5, ban: '5 in 1m for 20s', compare: [] },
  },
  'Slots: a few at a time': {
    policies: 'concurrency 3/30s',
    ...{ pattern: 'bursts', rate: 2, takes: 2000, compare: [] },
  },
  'A quota per hour': {
    policies: 'calendar 100/hour',
    ...{ pattern: 'steady', rate: 0.04, seconds: 10_800, compare: ['fixed-window'] },
  },
};

/** The most requests of one pattern. */
export const MAX_REQUESTS = 50_000;

const PATTERN_NAMES = Object.keys(PATTERNS) as Pattern[];
const COMPARED_NAMES = Object.keys(COMPARED) as Compared[];

/** The settings as the fragment of a link. Values that are the defaults are left out. */
export function toLink(settings: Settings): string {
  const link = new URLSearchParams();
  for (const name of Object.keys(DEFAULTS) as (keyof Settings)[]) {
    const value = String(settings[name]);
    if (value !== String(DEFAULTS[name])) link.set(name, value);
  }
  return link.toString();
}

/** Reads the fragment of a link. Values that nobody could have set become the defaults. */
export function fromLink(fragment: string): Settings {
  const link = new URLSearchParams(fragment.replace(/^#/, ''));
  const text = (name: 'policies' | 'ban' | 'wait'): string => link.get(name) ?? DEFAULTS[name];
  const number = (name: 'rate' | 'seconds' | 'takes'): number => {
    const value = Number(link.get(name) ?? NaN);
    return value > 0 && value < 1e9 ? value : DEFAULTS[name];
  };
  const compare = link.get('compare');
  return {
    policies: text('policies'),
    pattern: PATTERN_NAMES.find((name) => name === link.get('pattern')) ?? DEFAULTS.pattern,
    rate: number('rate'),
    seconds: number('seconds'),
    takes: number('takes'),
    ban: text('ban'),
    wait: text('wait'),
    compare:
      compare === null
        ? DEFAULTS.compare
        : COMPARED_NAMES.filter((name) => compare.split(',').includes(name)),
  };
}

/** The texts of the policies. A line that begins with `#` is a remark. */
export const linesOf = ({ policies }: Pick<Settings, 'policies'>): string[] =>
  policies
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
