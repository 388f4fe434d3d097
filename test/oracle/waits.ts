// Requests that wait, and functions that are limited. A request that is admitted at once is as one of `consume`. Any other one waits until it is
// aborted, which charges nothing.
import { HeadgateError, type Decision } from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { limitFetch } from 'headgate/fetch';
import type { Action, Both } from './actions.js';
import { plain } from './compare.js';
import { withKnown } from './known.js';
import type { Answer, Question } from './model/decide.js';
import type { Cost, Decision as Expected, Keys } from './model/types.js';
import { callText } from './program.js';

/** The time ahead for which a bucket may give a waiting request its turn, ms. */
const AHEAD_MS = 1000;

/** A wait that ends at once, or with a return, must have ended within this time, ms, so that a difference does not hang the run. */
export const NOTICED_MS = 5000;

export interface Waiting {
  readonly kind: 'wait' | 'wrapped' | 'schedule';
  readonly keys: Keys;
  readonly options: { readonly cost?: Cost; readonly tier?: string; readonly weight?: number };
  /** The name of the decision in the program. */
  readonly variable: string;
}

/** The answers of the limiter: a look before, and the decision, `'ran'` or the code of an error. Without `end`, the call depends on real time. */
interface Waited {
  readonly seen: Expected;
  readonly end?: Expected | string;
}

export function waitingAction(both: Both, waiting: Waiting, now: number): Action | undefined {
  const { real, model, name, decisions } = both;
  const { def } = model;
  const { kind, options, variable } = waiting;
  const { weight, ...unweighted } = options;
  const isOfKey = [def.policies, ...Object.values(def.tiers)].flat().every(({ by }) => by === 'key');
  const isForSchedule = isOfKey && options.tier === undefined && weight === undefined;
  const { key } = waiting.keys;
  if (kind === 'schedule' && (key === undefined || !isForSchedule)) return undefined;
  // Work has no key of another dimension.
  const keys: Keys = kind === 'schedule' ? { key: key! } : waiting.keys;
  const isWaiting = kind !== 'wrapped';
  const question: Omit<Question, 'real'> = { keys, cost: 1, isPeek: false, isWaiting, ...options };

  /** Whether the wait ends by itself without a return of units, because a bucket gives turns ahead or holds until the turn. */
  const endsInTime = ({ allowed, delayMs, retryAfterMs = Infinity, reason }: Expected) =>
    delayMs > 0 || (!allowed && retryAfterMs <= AHEAD_MS) || (allowed && reason !== undefined);

  let admitted: Decision | undefined;

  async function ask(seen: Expected): Promise<Expected | string> {
    const abort = new AbortController();
    const { signal } = abort;
    const late = setTimeout(() => abort.abort('late'), NOTICED_MS);
    const work = async () => 'ran';
    const asked: Promise<Expected | string> = {
      wait: async () => plain((admitted = await real.wait(keys, { ...options, signal }))),
      wrapped: rateLimited(work, { limiter: real, key: () => keys, ...unweighted }),
      schedule: () =>
        limitFetch(fetch, { limiter: real }).schedule(work, {
          ...{ key, signal },
          ...(options.cost === undefined ? {} : { cost: options.cost }),
        }),
    }[kind]();
    const end = asked.catch((error: unknown) => {
      if (!(error instanceof HeadgateError)) return String(error);
      return kind === 'wrapped' ? plain(error.decision!) : error.code;
    });
    if (!seen.allowed && seen.reason !== 'cost-exceeds-capacity' && isWaiting) {
      // By then the store has answered the wait, too.
      await real.peek(keys, options);
      abort.abort('aborted');
    }
    return end.finally(() => clearTimeout(late));
  }

  return {
    uses:
      kind === 'wait' ? ['wait'] : kind === 'wrapped' ? ['wrapped functions'] : ['wait', 'wrapped functions'],
    text: `const ${variable} = show(await ${callText(`${name}.wait`, [keys, options])}); // ${kind}`,
    real: async (): Promise<Waited> => {
      const seen = plain(await real.peek(keys, options));
      return endsInTime(seen) ? { seen } : { seen, end: await ask(seen) };
    },
    model: (witness) => {
      const { seen, end } = witness as Waited;
      const look = model.decide({ ...question, isPeek: true, real: seen }, now);
      const expected = { seen: withKnown(seen, look.decision, def, false) };
      if (end === undefined) return expected;
      const answer = model.decide({ ...question, real: typeof end === 'string' ? seen : end }, now);
      if (!seen.allowed && isWaiting) return { ...expected, end: codeOf(seen, end) };
      if (admitted) decisions.push({ real: admitted, handle: answer.handle, name: variable });
      else answer.handle.release(now);
      return { ...expected, end: endOf(answer, end) };
    },
  };

  function endOf({ decision }: Answer, end: Expected | string): Expected | string {
    if (kind !== 'wait' && decision.allowed) return 'ran';
    return typeof end === 'string' ? decision : withKnown(end, decision, def, false);
  }

  /** A denial of a wait is final if the cost can never be admitted. Of a banned key the docs leave open whether the ban or the cost is looked at first. */
  function codeOf({ reason }: Expected, end: Expected | string): string {
    if (reason === 'banned' && end === 'HEADGATE_DENIED') return end;
    if (reason === 'cost-exceeds-capacity') return 'HEADGATE_DENIED';
    return kind === 'wait' ? 'HEADGATE_ABORTED' : 'aborted';
  }
}
