// Plays a drawn site over real sockets, and compares every answer and every charge with the oracle's.
import { setTimeout as sleep } from 'node:timers/promises';
import { HeadgateError, type Decision, type Store } from 'headgate';
import { TestClock } from 'headgate/testing';
import { compare } from '../../oracle/compare.js';
import { Account } from './account.js';
import { differenceOf, type Made } from './answers.js';
import { clientOf, type Answer } from './client.js';
import type { Ask, HttpLimiter, HttpSite } from './draw.js';
import type { Own } from './own.js';
import { programText } from './program.js';
import { serve, type Event, type Running, type Seen } from './serve.js';

export interface Subject {
  readonly name: string;
  create(clock: TestClock): Store;
}

class Difference extends Error {}

export const played = { sites: 0, requests: 0, answers: 0, refused: new Map<string, number>() };

/** The longest time until the last refund has arrived, ms. */
const SETTLED_MS = 5000;

export async function play(subject: Subject, drawn: HttpSite, own: Own): Promise<void> {
  const site = { ...drawn, limiters: drawn.limiters.map((each) => playable(subject, each, drawn)) };
  const clock = new TestClock(site.start);
  const store = subject.create(clock);
  const differs = (difference: string) => new Difference(`${difference}\n${programText(site)}`);
  let client: ReturnType<typeof clientOf> | undefined;
  let running: Running | undefined;
  try {
    running = await serve(site, store, (n) => client?.reached(n));
    played.sites++;
    client = clientOf(running.served.port);
    await new Play(site, subject, clock, running, client).run();
  } catch (error) {
    if (error instanceof Mismatch) throw differs(error.message);
    if (!(error instanceof HeadgateError) || running) throw error;
    const why = `${error.code} ${error.message.slice(0, 80)}`;
    played.refused.set(why, (played.refused.get(why) ?? 0) + 1);
  } finally {
    client?.close();
    await running?.close();
    await store.close?.();
  }
  // A busy server may still answer a call whose result nothing waits for.
  const left = await own.timersAfter(subject.name === 'memory' ? SETTLED_MS / 25 : SETTLED_MS);
  if (left > 0) throw differs(`${left} timers are left`);
}

class Mismatch extends Error {}

/** Without the order of decisions, nothing predicts the bans, so they must not change charges. */
function playable(subject: Subject, drawn: HttpLimiter, site: HttpSite): HttpLimiter {
  if (isExact(subject, drawn, site) || !drawn.ban) return drawn;
  const plain = ({ attempts, ...policy }: HttpLimiter['policies'][number]) => (void attempts, policy);
  return {
    ...drawn,
    ban: { ...drawn.ban, fresh: false },
    policies: drawn.policies.map(plain),
    tiers: Object.fromEntries(Object.entries(drawn.tiers).map(([tier, set]) => [tier, set.map(plain)])),
  };
}

/** Whether the order of the limiter's decisions and refunds is that of its events. Nobody knows when a limiter notices that a client has left. */
function isExact({ name }: Subject, { wait, policies }: HttpLimiter, { waves }: HttpSite): boolean {
  const stay = waves.every(({ asks }) => asks.every(({ leaves }) => leaves === undefined));
  return (
    stay &&
    name === 'memory' &&
    wait === undefined &&
    policies.every(({ maxDelay }) => maxDelay === undefined)
  );
}

class Play {
  readonly #asks = new Map<number, Ask>();
  /** The events of earlier waves, with their times. */
  readonly #past: { readonly events: readonly Event[]; readonly now: number }[] = [];
  readonly #site: HttpSite;
  readonly #subject: Subject;
  readonly #clock: TestClock;
  readonly #running: Running;
  readonly #client: ReturnType<typeof clientOf>;

  constructor(...parts: [HttpSite, Subject, TestClock, Running, ReturnType<typeof clientOf>]) {
    [this.#site, this.#subject, this.#clock, this.#running, this.#client] = parts;
  }

  async run(): Promise<void> {
    for (const { asks, ms } of this.#site.waves) {
      const first = this.#asks.size;
      asks.forEach((ask, i) => this.#asks.set(first + i, ask));
      const sent = asks.map(async (ask, i) => [first + i, await this.#client.send(first + i, ask)] as const);
      const answers = await Promise.all(sent);
      played.requests += answers.length;
      await this.#idle();
      const { failures } = this.#running;
      if (failures.length > 0) throw new Mismatch(`failed: ${failures[0]}`);
      await this.#checkCharges();
      for (const [n, answer] of answers) this.#checkAnswer(n, answer);
      this.#past.push({ events: this.#running.events.slice(this.#pastEvents), now: this.#clock.now });
      this.#clock.now += ms;
    }
  }

  get #pastEvents(): number {
    return this.#past.reduce((sum, { events }) => sum + events.length, 0);
  }

  /** Resolves when the responses of all requests that arrived have ended. */
  async #idle(): Promise<void> {
    const { seen } = this.#running;
    await sleep(1);
    for (let i = 0; [...seen.values()].some(({ ended }) => !ended); i++) {
      if (i > SETTLED_MS) throw new Mismatch('a response never ended');
      await sleep(1);
    }
  }

  /**
   * The accounts after all events.
   *
   * @param keeps without an order of decisions: whether the charges of repeated ids stay, because nobody knows whether the repetition came
   * before the outcome
   */
  #accounts(keeps: boolean): Account[] {
    const accounts = this.#site.limiters.map((drawn, i) => {
      const asking = new Account(`l${i}`, drawn, false);
      const repeated = this.#running.events.flatMap((event) => {
        if (event.kind === 'end') return [];
        const { limiter, fields } = event.seen.decisions[event.at]!;
        const isRepetition = limiter === i && fields.repeated;
        return isRepetition ? [asking.placeOf(this.#asks.get(event.seen.n)!) ?? ''] : [];
      });
      const kept = new Set(keeps ? repeated : []);
      return new Account(`l${i}`, drawn, isExact(this.#subject, drawn, this.#site), kept);
    });
    const waves = [
      ...this.#past,
      { events: this.#running.events.slice(this.#pastEvents), now: this.#clock.now },
    ];
    const ended = new Set<Seen>();
    const finish = (seen: Seen, now: number) => {
      for (const { limiter } of seen.decisions) accounts[limiter]!.end(seen.n, seen.ended!, now);
    };
    for (const { events, now } of waves)
      for (const event of events) {
        const { seen } = event;
        const { n } = seen;
        if (event.kind === 'end') {
          ended.add(seen);
          for (const { limiter } of seen.decisions) accounts[limiter]!.end(n, seen.ended!, now);
          continue;
        }
        const { limiter, fields } = seen.decisions[event.at]!;
        const difference = accounts[limiter]!.decide(n, this.#asks.get(n)!, fields, now);
        if (difference)
          throw new Mismatch(`request ${n}, l${limiter}: ${difference}\n// ${JSON.stringify(fields)}`);
        if (!fields.allowed)
          for (const earlier of seen.decisions.slice(0, event.at).reverse())
            accounts[earlier.limiter]!.withdraw(n, now);
        if (ended.has(seen)) finish(seen, now);
      }
    return accounts;
  }

  /** Compares the usage of every key and tier, once refunds have arrived. */
  async #checkCharges(): Promise<void> {
    for (let waited = 0; ; waited++) {
      const difference = await this.#chargesDiffer();
      if (!difference) return;
      if (waited * 5 > (this.#subject.name === 'memory' ? SETTLED_MS / 5 : SETTLED_MS))
        throw new Mismatch(difference);
      await sleep(5);
    }
  }

  async #chargesDiffer(): Promise<string | undefined> {
    const accounts = this.#accounts(false);
    const keeping = this.#accounts(true);
    for (const [i, account] of accounts.entries()) {
      const real = this.#running.limiters[i]!;
      const questions = new Map<string, NonNullable<ReturnType<Account['questionOf']>>>();
      for (const ask of this.#asks.values()) {
        const question = account.questionOf(ask);
        if (question) questions.set(JSON.stringify([question.keys, question.tier]), question);
      }
      for (const [name, { keys, tier }] of questions) {
        const usage = await real.usage(keys, tier === undefined ? {} : { tier });
        const short = (list: typeof usage.policies) =>
          list.map(({ name: policy, key, limit, used }) => ({ policy, key, limit, used }));
        const shown = short(usage.policies);
        const [least, most] = [account, keeping[i]!].map(({ model }) =>
          short((model.usage(keys, tier, this.#clock.now, usage) as typeof usage).policies),
        ) as [typeof shown, typeof shown];
        const isBetween = (used: number, at: number) => used >= least[at]!.used && used <= most[at]!.used;
        const expected = least.map((each, at) =>
          shown[at] && isBetween(shown[at].used, at) ? { ...each, used: shown[at].used } : each,
        );
        const difference = compare(shown, expected);
        if (difference) return `usage of l${i} ${name} after all requests${difference}`;
      }
    }
    return undefined;
  }

  #checkAnswer(n: number, answer: Answer | undefined): void {
    const ask = this.#asks.get(n)!;
    if (!answer) {
      if (!ask.leaves) throw new Mismatch(`request ${n} has no answer`);
      return;
    }
    played.answers++;
    const { decisions, handled } = this.#running.seen.get(n)!;
    const where = `request ${n}: `;
    const made = decisions.map(({ limiter, fields }): Made => {
      const drawn = this.#site.limiters[limiter]!;
      const account = new Account(`l${limiter}`, drawn, false);
      // Known: a request that has waited in vain shows the last denial of its line, maybe of another tier or cost.
      const isOfAnother = fields.repeated || (!fields.allowed && drawn.wait !== undefined);
      const decided = isOfAnother ? this.#decidedFor(n, limiter, account, fields) : ask;
      return {
        decision: fields,
        policies: account.policiesOf(decided, this.#clock.now),
        shadow: drawn.shadow,
      };
    });
    // Without an order, several first requests may be the one that such a decision shows.
    const isOpen = decisions.some(({ limiter, fields }) => {
      const drawn = this.#site.limiters[limiter]!;
      const isOfAnother = fields.repeated || (!fields.allowed && drawn.wait !== undefined);
      return isOfAnother && !isExact(this.#subject, drawn, this.#site);
    });
    const isDenied = made.some(({ decision }) => !decision.allowed);
    const difference =
      (isDenied
        ? compare(handled, undefined, 'the handler of a denied request')
        : (compare(answer.status, ask.status, 'status') ??
          compare(handled?.rateLimit === decisions.at(-1)?.decision, true, 'req.rateLimit'))) ??
      (isOpen ? undefined : differenceOf(answer, made));
    if (difference) throw new Mismatch(`${where}${difference}\n// ${JSON.stringify(made)}`);
  }

  /**
   * The request whose policies a decision shows: of a repetition the one that was charged for the id, whose tier may be another. The event of a held request comes late, so without an
   * order any request with the id counts whose policies are in the verdicts.
   */
  #decidedFor(n: number, limiter: number, account: Account, { policies: verdicts }: Decision): Ask {
    const place = (ask: Ask) => {
      const { keys, id } = account.questionOf(ask) ?? {};
      return JSON.stringify([keys, id]);
    };
    const own = this.#asks.get(n)!;
    const wanted = place(own);
    const firsts: Ask[] = [];
    for (const event of this.#running.events) {
      if (event.kind === 'end') continue;
      const { limiter: at, fields } = event.seen.decisions[event.at]!;
      const ask = this.#asks.get(event.seen.n)!;
      if (at !== limiter || place(ask) !== wanted) continue;
      if (event.seen.n === n) break;
      // A request of cost 0 only looks, and its id is not remembered.
      const isCharged = Object.values(fields.costs).some((units) => units > 0);
      if (!fields.repeated && fields.allowed && isCharged) firsts.unshift(ask);
    }
    const all = [...this.#asks.values()].filter((ask) => account.questionOf(ask));
    const same = all.filter((ask) => place(ask) === wanted);
    const shape = (list: readonly { name: string; limit: number }[]) =>
      JSON.stringify(list.map(({ name, limit }) => [name, limit]));
    const isShown = (ask: Ask) => shape(account.policiesOf(ask, this.#clock.now)) === shape(verdicts);
    return [...firsts, own, ...same, ...all].find(isShown) ?? own;
  }
}
