// Plays a trace on the real package and on the model, and compares every answer.
import { createLimiter, HeadgateError, type Decision, type Limiter, type Store } from 'headgate';
import { TestClock } from 'headgate/testing';
import { compare as exactly, plain, untimed } from './compare.js';
import { actionOf, type Both } from './actions.js';
import type { FeatureName } from '../../src/contract/together.js';
import type { DrawnLimiter, Site, Step } from './draw.js';
import { meet } from './met.js';
import { LimiterModel } from './model/limiter.js';
import type { Logged } from './model/log.js';
import type { Event } from './model/thresholds.js';
import { orders, Snapshot } from './snapshot.js';
import type { Decision as Expected, LimiterDef } from './model/types.js';
import { withKnown } from './known.js';
import { callText, optionsOf, programText } from './program.js';
import { denialOf, isOfLines, playLine, RETURNS } from './lines.js';

export interface Subject {
  readonly name: string;
  /** The lines that make a store in a program. */
  readonly lines: readonly string[];
  /** Whether calls for other keys, sent in one turn, are decided in the order of the calls. */
  readonly isOrdered?: boolean;
  /** The secret for `hashKeys`, if the store has it. */
  readonly secret?: string;
  /** Whether state is in the rows of a database. */
  readonly isDatabase?: boolean;
  /** Whether the store can decide from slices. */
  readonly hasSlices?: boolean;
  /** Whether the clock begins at the real time, by which another process then looks at the state. */
  readonly beginsNow?: boolean;
  /** @param place a number for state of its own. A store with the same one is a restarted process, unless state is in memory */
  create(clock: TestClock, options: object, place: number): Store | Promise<Store>;
}

let places = 0;

export class Difference extends Error {}

/** A view of operators differs from the model, although the trace agreed. */
class ViewDifference extends Error {}

/** Sites that the package refuses, by the code and the beginning of the message. */
export const refused = new Map<string, number>();
export const played = { sites: 0, steps: 0 };

/** The end of a trace. */
export interface Scene {
  readonly limiters: readonly Both[];
  readonly store: Store;
  readonly now: number;
  /** The secret with which the store hashes keys. */
  readonly secret: string | undefined;
}

/** @param view looks at the state after the trace, and returns a difference */
export async function play(
  subject: Subject,
  site: Site,
  view?: (scene: Scene) => Promise<string | undefined>,
): Promise<void> {
  // Slices are spent in real time, which no trace advances.
  const isSliced = subject.hasSlices === true && site.row.has('slices');
  const clock = new TestClock(subject.beginsNow || isSliced ? Date.now() : site.start);
  const compare: typeof exactly = (got, expected, where) =>
    isSliced ? exactly(untimed(got), untimed(expected), where) : exactly(got, expected, where);
  const start = clock.now;
  const log: Logged[] = [];
  const lines: string[] = [];
  const limiters: Both[] = [];
  const place = places++;
  const storeOptions: { hashKeys?: string; slices?: object } = {
    ...(subject.secret && site.row.has('hashKeys') ? { hashKeys: subject.secret } : {}),
    ...(isSliced ? { slices: { hold: '1s' } } : {}),
  };
  let made = 0;
  let retry = 0;
  let store = await create();
  try {
    for (const [i, drawn] of site.limiters.entries()) {
      const name = `l${i}`;
      const events: Event[] = [];
      let real: Limiter;
      try {
        real = limiterOf(name, drawn, events);
      } catch (error) {
        if (!(error instanceof HeadgateError)) throw error;
        const why = `${error.code} ${error.message.slice(0, 90)}`;
        refused.set(why, (refused.get(why) ?? 0) + 1);
        return;
      }
      const { ban, ...rest } = drawn;
      const def: LimiterDef = { name, ...rest, slices: isSliced, ...(ban ? { ban } : {}) };
      const model = new LimiterModel(def, log);
      limiters.push({ drawn, name, real, model, events, decisions: [], used: new Set() });
    }
    played.sites++;
    const steps = isSliced ? hot(site) : site.steps;
    for (let at = 0; at < steps.length; at++) {
      const step = steps[at]!;
      played.steps++;
      const advance = (ms: number) => {
        if (ms <= 0) return;
        clock.advance(ms);
        lines.push(`clock.advance(${ms});`);
      };
      if (step.kind === 'advance') advance(step.ms);
      else if (step.kind === 'until') advance(retry - (step.pick % 2));
      else if (step.kind === 'restart') await restart();
      else if (step.kind === 'batch') {
        const end = at + 2 + (step.pick % 5);
        const batch: Step[] = [];
        while (at + 1 < Math.min(end, steps.length) && isDecision(steps[at + 1]!)) batch.push(steps[++at]!);
        await together(batch);
      } else if (
        step.kind === 'wait' &&
        RETURNS.has(steps[at + 1]?.kind ?? '') &&
        (await line(step, steps[at + 1]!))
      )
        at++;
      else if ((await one(bothOf(step), step)) === 'end') break;
    }
    const difference = await view?.({ limiters, store, now: clock.now, secret: storeOptions.hashKeys });
    if (difference) throw new ViewDifference(differs(difference).message);
    for (const both of limiters) meet(both, Object.keys(storeOptions) as FeatureName[]);
  } finally {
    await Promise.all(limiters.map(({ real }) => real.close()));
    await store.close?.();
  }

  /** The store of a process. */
  async function create(): Promise<Store> {
    return subject.create(clock, storeOptions, place);
  }

  function bothOf({ limiter }: Step): Both {
    return limiters[limiter % limiters.length]!;
  }

  function limiterOf(name: string, drawn: DrawnLimiter, events: Event[]): Limiter {
    return createLimiter({
      ...optionsOf(name, drawn),
      store,
      timeout: '20s',
      warnings: false,
      ...(hasThresholds(drawn) ? { onThreshold: (event: Event) => void events.push(event) } : {}),
    } as never);
  }

  /** The process ends, and another begins on the same state. */
  async function restart(): Promise<void> {
    if (subject.name === 'memory' || subject.name === 'map-store') return;
    // A repetition by a process that does not know the deciding policies only shows the quota.
    const isOther = site.row.has('overrides of a window') || site.row.has('overrides by tier');
    if (isOther && limiters.some(({ drawn }) => drawn.hasIds)) return;
    lines.push('// The process ends, and another makes the store and the limiters again.');
    await Promise.all(limiters.map(({ real }) => real.close()));
    await store.close?.();
    store = await create();
    for (const both of limiters) {
      both.real = limiterOf(both.name, both.drawn, both.events);
      both.decisions.length = 0;
    }
  }

  /** Requests in flight at once. */
  async function together(batch: readonly Step[]): Promise<void> {
    const [first] = batch;
    if (!first) return;
    const actions = batch.flatMap((step, i) => {
      const both = bothOf(subject.isOrdered ? step : first);
      const drawn = subject.isOrdered ? step : { ...step, keys: first.keys };
      const action = actionOf(both, drawn, clock.now, `d${made + i}`);
      return action ? [{ both, action }] : [];
    });
    if (actions.length === 0) return;
    const names = actions.map((_, i) => `d${made + i}`);
    lines.push(
      `const [${names.join(', ')}] = await Promise.all([${actions.map(({ action }) => action.call).join(', ')}]); show([${names.join(', ')}]);`,
    );
    made += batch.length;
    const answered: number[] = [];
    const got = await Promise.allSettled(
      actions.map(async ({ action }, i) => {
        const answer = await action.real();
        answered.push(i);
        return answer as Decision;
      }),
    );
    // Requests are valid, so none is refused.
    for (const each of got) if (each.status === 'rejected') throw differs(String(each.reason));
    const reported = limiters.map(({ events }) => events.splice(0));
    // The store decides in one order or another, which is mostly the order of the answers. A denial may look further before it answers.
    const before = new Snapshot(limiters);
    let found: string | undefined;
    for (const order of orders(answered)) {
      if (found !== undefined) before.restore();
      const difference = inOrder(order) ?? differenceOfEvents();
      found ??= difference;
      if (difference === undefined) return;
    }
    throw differs(found!);

    function inOrder(order: readonly number[]): string | undefined {
      for (const i of order) {
        const { both, action } = actions[i]!;
        const decision = (got[i] as PromiseFulfilledResult<Decision>).value;
        for (const feature of action.uses) both.used.add(feature);
        const predicted = action.model(decision) as Expected;
        const expected = withKnown(plain(decision), predicted, both.model.def, true);
        const difference = compare(plain(decision), expected, names[i]);
        if (difference) return difference;
      }
      return undefined;
    }

    function differenceOfEvents(): string | undefined {
      for (const [i, { model, name }] of limiters.entries()) {
        const difference = compare(reported[i], model.events.splice(0), `${name} onThreshold`);
        if (difference) return difference;
      }
      return undefined;
    }
  }

  /** Requests that wait until the next step. @returns false if they would not wait, or if the model does not know for how long */
  async function line(step: Step, next: Step): Promise<boolean> {
    const both = bothOf(step);
    const waiting = actionOf(both, step, clock.now, `d${made}`)?.waiting;
    if (!waiting || !isOfLines(both)) return false;
    const denial = await denialOf(both, waiting);
    if (!denial) return false;
    lines.push(
      `// Three requests wait until the next step, with the priorities 1, 0, 0: ${callText('wait', [waiting.keys, waiting.options])}`,
    );
    const difference = await playLine(both, waiting, { now: clock.now, denial }, () =>
      one(bothOf(next), next),
    );
    made++;
    if (difference) throw differs(difference);
    return true;
  }

  async function one(both: Both, step: Step): Promise<'end' | undefined> {
    const { model } = both;
    const action = actionOf(both, step, clock.now, `d${made}`);
    // On servers, a change of all keys that is not one of limits ends with the next read of the process.
    if (
      subject.name !== 'memory' &&
      step.kind === 'override' &&
      (isSliced || step.change !== 'limit') &&
      action?.text.includes('overrideAll')
    )
      return undefined;
    if (!action) return undefined;
    lines.push(action.text);
    let got: unknown;
    let expected: unknown;
    try {
      got = await action.real();
    } catch (error) {
      if (!(error instanceof HeadgateError)) throw error;
      // A call that is refused changes nothing.
      const why = `${error.code} in ${step.kind}: ${error.message.slice(0, 70)}`;
      if (!/^HEADGATE_(INVALID|UNKNOWN|OVERRIDES)/.test(error.code))
        throw differs(`${why}\n${error.cause instanceof Error ? error.cause.message : ''}`);
      refused.set(why, (refused.get(why) ?? 0) + 1);
      lines.pop();
      return undefined;
    }
    for (const feature of action.uses) both.used.add(feature);
    expected = action.model(got);
    if (action.text.startsWith('const ')) made++;
    const decision = isDecision(step) ? (got as Decision) : undefined;
    if (decision && !decision.allowed && decision.retryAfterMs) retry = decision.retryAfterMs;
    if (decision) expected = withKnown(plain(decision), expected as Expected, model.def, false);
    const difference =
      compare(decision ? plain(decision) : got, expected) ??
      compare(both.events, model.events, 'onThreshold');
    both.events.length = model.events.length = 0;
    if (difference) throw differs(difference);
    if (decision && !decision.allowed && action.peek && step.pick % 2 && !subject.beginsNow && !isSliced)
      return probe(both, decision, action.peek);
    return undefined;
  }

  /** Of shares the model knows no exact time, but law 2 holds: denied a millisecond earlier, and admitted at the time. Ends the trace, because a clock does not go back. */
  async function probe(
    { drawn }: Both,
    { retryAfterMs, reason }: Decision,
    peek: () => Promise<Decision>,
  ): Promise<'end' | undefined> {
    const shared = drawn.policies.filter(({ share }) => share).length;
    if (shared !== 1 || drawn.overrides || reason === 'banned' || !retryAfterMs) return undefined;
    const { now } = clock;
    clock.now = now + retryAfterMs - 1;
    const early = await peek();
    clock.now = now + retryAfterMs;
    const due = await peek();
    if (early.allowed || !due.allowed)
      throw differs(
        `law 2: retryAfterMs ${retryAfterMs}: ${early.allowed ? 'admitted a ms earlier' : `denied then (${due.reason}, ${due.retryAfterMs})`}`,
      );
    return 'end';
  }

  function differs(difference: string): Difference {
    return new Difference(
      `${difference}\n${programText(subject.lines, site.limiters, lines, { start, storeOptions })}`,
    );
  }
}

/** Steps that take time, and functions that run or not: a slice may admit them, but they have no verdict that shows the units held. */
const NOT_SLICED: readonly Step['kind'][] = ['advance', 'until', 'restart', 'wrapped', 'schedule'];

/** The steps of a site with slices, in which the requests without an id make their keys hot. A slice of another tier may admit a request that waits. */
const hot = ({ limiters, steps }: Site): Step[] =>
  steps.flatMap((step) => {
    const hasTiers = limiters.some(({ tiers }) => Object.keys(tiers).length > 0);
    if (NOT_SLICED.includes(step.kind) || (step.kind === 'wait' && hasTiers)) return [];
    const isHot = step.kind === 'consume' && step.id === undefined;
    return Array.from({ length: isHot ? 1 + (step.pick % 30) : 1 }, () => step);
  });

const isDecision = ({ kind }: Step) => kind === 'consume' || kind === 'peek';

const hasThresholds = ({ policies, tiers }: DrawnLimiter) =>
  [policies, ...Object.values(tiers)].flat().some(({ thresholds }) => thresholds);
