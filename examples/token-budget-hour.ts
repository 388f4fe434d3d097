// An hour of the budgets of token-budget.ts, simulated in a second: the tokens that are spent, the tokens that are reserved and not used, and
// the denials. Put your own numbers in before you choose how to reserve. See docs/token-budgets.md.
//
//   npx tsx examples/token-budget-hour.ts
import { createLimiter, memoryStore, type Decision, type Policy } from 'headgate';

const HOUR = 3_600_000;
const START = Date.UTC(2026, 9, 5, 12);

const unit = 'tokens';
const POLICIES: readonly Policy[] = [
  { name: 'account', algorithm: 'calendar', limit: 150_000, period: 'hour', by: 'account', unit },
  { name: 'org', algorithm: 'calendar', limit: 600_000, period: 'hour', by: 'org', unit },
  { name: 'month', algorithm: 'calendar', limit: 20_000_000, period: 'month', by: 'org', unit },
];

/** The organisations: the tokens left of the month, and the number of accounts. */
const ORGS = { acme: { left: 2_000_000, accounts: 8 }, globex: { left: 300_000, accounts: 3 } };

/** Tokens of prompts, tokens of answers, the largest request of a call; then the speed of answers, and the calls at a time. */
const PROMPT = { least: 100, most: 1_500 };
const ANSWER = { mean: 350, most: 2_000 };
const PER_SECOND = 60;
const CALLS = 2_400;

/** The size of a reservation: the whole possible cost of a call, or its prompt and so many tokens, again and again. */
type Reserve = 'all' | number;

/** A small random generator with a seed (mulberry32), so that the calls are the same each time. */
function randomness(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Call {
  readonly at: number;
  readonly keys: { readonly account: string; readonly org: keyof typeof ORGS };
  readonly prompt: number;
  readonly answer: number;
}

function calls(): Call[] {
  const random = randomness(42);
  const orgs = Object.keys(ORGS) as (keyof typeof ORGS)[];
  const made = Array.from({ length: CALLS }, (): Call => {
    const org = orgs[random() < 0.7 ? 0 : 1]!;
    const account = `${org}-${Math.floor(random() * ORGS[org].accounts)}`;
    const prompt = Math.round(PROMPT.least + random() * (PROMPT.most - PROMPT.least));
    const answer = Math.min(ANSWER.most, Math.ceil(-ANSWER.mean * Math.log(1 - random())));
    return { at: START + random() * HOUR, keys: { account, org }, prompt, answer: Math.max(1, answer) };
  });
  return made.sort((a, b) => a.at - b.at);
}

async function simulate(reserve: Reserve) {
  let now = START - HOUR;
  const budget = createLimiter({
    name: 'tokens',
    store: memoryStore({ clock: () => Math.floor(now) }),
    policies: POLICIES,
  });
  // The spending of the month so far. It happens in the hour before, so that this hour begins with full budgets.
  for (const [org, { left }] of Object.entries(ORGS)) {
    const before = await budget.consume({ org }, { cost: 0 });
    await before.settle(20_000_000 - left);
  }
  now = START;

  const spent = new Map<string, number>();
  const counts = { complete: 0, denied: 0, cut: 0 };
  let charged = 0;
  let used = 0;
  let idle = 0;
  let mostIdle = 0;
  let above = 0;
  let atOnce = 0;
  let running = 0;

  // The events in order of time.
  const events: { at: number; run: () => Promise<void> }[] = [];
  const later = (at: number, run: () => Promise<void>) => {
    let i = events.length;
    while (i > 0 && events[i - 1]!.at < at) i--;
    events.splice(i, 0, { at, run });
  };

  function spend({ account, org }: Call['keys'], tokens: number) {
    used += tokens;
    for (const [key, limit] of [
      [account, 150_000],
      [org, Math.min(600_000, ORGS[org].left)],
    ] as const) {
      spent.set(key, (spent.get(key) ?? 0) + tokens);
      if (spent.get(key)! > limit) above += 1;
    }
  }

  async function begin(call: Call) {
    const { keys, prompt, answer } = call;
    const part = reserve === 'all' ? ANSWER.most : reserve;
    const first = await budget.consume(keys, { cost: prompt + part });
    if (!first.allowed) {
      counts.denied += 1;
      return;
    }
    running += 1;
    atOnce = Math.max(atOnce, running);
    charged += first.cost;
    spend(keys, prompt);
    stream(keys, first, prompt, answer);
  }

  /** Streams `rest` tokens up to the reservation, beside the tokens already spent. Then reserves more, or settles. */
  function stream(keys: Call['keys'], held: Decision, before: number, rest: number) {
    const tokens = Math.min(rest, held.cost - before);
    later(now + (1000 * tokens) / PER_SECOND, async () => {
      spend(keys, tokens);
      if (rest > tokens) {
        const next = await budget.consume(keys, { cost: held.cost - before });
        if (next.allowed) {
          charged += next.cost;
          stream(keys, next, 0, rest - tokens);
          return;
        }
        counts.cut += 1;
      } else counts.complete += 1;
      running -= 1;
      charged -= held.cost - before - tokens;
      await held.settle(before + tokens);
    });
  }

  for (const call of calls()) later(call.at, () => begin(call));
  for (let next = events.pop(); next && next.at < START + HOUR; next = events.pop()) {
    idle += (charged - used) * (next.at - now);
    now = next.at;
    await next.run();
    mostIdle = Math.max(mostIdle, charged - used);
  }
  await budget.close();
  const total = Object.values(ORGS).reduce((sum, { left }) => sum + Math.min(600_000, left), 0);
  return {
    reserved: reserve === 'all' ? 'all' : `by ${reserve}`,
    complete: counts.complete,
    'cut off': counts.cut,
    denied: counts.denied,
    'at once': atOnce,
    spent: `${((100 * used) / total).toFixed(1)} %`,
    'idle on average': `${((100 * idle) / HOUR / total).toFixed(2)} %`,
    'at most': `${((100 * mostIdle) / total).toFixed(2)} %`,
    'above a budget': above,
  };
}

for (const reserve of ['all', 500, 100] as const) {
  const figures = await simulate(reserve);
  console.log(
    Object.entries(figures)
      .map(([what, figure]) => `${what}: ${figure}`)
      .join(', '),
  );
}
