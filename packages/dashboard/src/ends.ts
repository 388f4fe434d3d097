import { setTimeout as sleep } from 'node:timers/promises';
import type { KeyRates, LimiterView } from 'headgate/admin';
import { timesLeft, type Judged, type Judges } from './judges.js';

/** The time for which the first screen waits for judgements, ms. Later ones are shown with the next reading. */
const WAIT_MS = 100;

/** The keys judged at a time. */
const WORKERS = 2;

/** A denied key of a limiter. */
export interface DeniedKey extends KeyRates {
  readonly name: string;
}

interface End {
  readonly at: number;
  /** Undefined if the judgement failed. */
  readonly judged: Judged | undefined;
}

/** The end of a denial as the first screen shows it. */
interface ShownEnd {
  readonly retryAfterMs: number | null;
  readonly lacksSlots?: boolean;
  /** The rest of the ban, ms, if the time after it is unknown. */
  readonly bannedForMs?: number;
  /** Whether the key was judged. */
  readonly isJudged: boolean;
}

/** Finds the ends of the denials of the first screen in the background, so that a slow store does not delay the screen. */
export class Ends {
  readonly #judges: Judges;
  #ends: ReadonlyMap<string, End> = new Map<string, End>();
  /** The judgements under way, or `undefined`. */
  #judging: Promise<void> | undefined;

  constructor(judges: Judges) {
    this.#judges = judges;
  }

  /** The ends of denials, as far as they are known within a moment. */
  async of(rows: readonly DeniedKey[], limiters: readonly LimiterView[]): Promise<readonly ShownEnd[]> {
    if (rows.length === 0) return [];
    this.#judging ??= this.#judge(rows, limiters).finally(() => (this.#judging = undefined));
    const stop = new AbortController();
    const late = sleep(WAIT_MS, undefined, { ref: false, signal: stop.signal }).catch(() => {});
    await Promise.race([this.#judging, late]);
    stop.abort();
    return rows.map((row) => shownEnd(this.#ends.get(idOf(row))));
  }

  async #judge(rows: readonly DeniedKey[], limiters: readonly LimiterView[]): Promise<void> {
    // By the limits of the key itself: its share of another limit is judged by a search of all keys.
    const shared = new Map(
      limiters.filter(({ traits }) => traits.sharesLimits).map((each) => [each.name, each]),
    );
    const ends = new Map<string, End>();
    for (const row of rows) {
      const last = this.#ends.get(idOf(row));
      if (last) ends.set(idOf(row), last);
    }
    this.#ends = ends;
    const left = [...rows];
    const work = async (): Promise<void> => {
      for (let row = left.shift(); row; row = left.shift()) {
        const { name, ...key } = row;
        const judged = await this.#judges.of(name, key).catch(() => undefined);
        // A share may deny a key that its own limits admit.
        const limiter = shared.get(name);
        const isOfShare = limiter && judged?.isAdmitted && mayBeOfShare(limiter, row.policy);
        ends.set(idOf(row), { at: Date.now(), judged: isOfShare ? undefined : judged });
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, work));
  }
}

/** Whether a denial by a policy may be that of a share. */
function mayBeOfShare({ configurations }: LimiterView, policy: string | undefined): boolean {
  if (policy === undefined) return true;
  const texts = configurations.flatMap(({ policies, tiers = {} }) => [
    ...policies,
    ...Object.values(tiers).flat(),
  ]);
  const named = texts.filter((text) => nameIn(text) === policy);
  return named.length === 0 || named.some((text) => / share \S/.test(text));
}

/** The name of a policy in its text: `name=100/1m`, quoted if it has other characters. */
function nameIn(text: string): string {
  const [, quoted, plain = 'default'] = /^(?:("(?:[^"\\]|\\.)*")|([^\s="]+))=/.exec(text) ?? [];
  return quoted === undefined ? plain : (JSON.parse(quoted) as string);
}

function shownEnd(end: End | undefined): ShownEnd {
  if (!end) return { retryAfterMs: null, isJudged: false };
  const { at, judged } = end;
  if (judged?.isAdmitted) return { retryAfterMs: 0, lacksSlots: false, isJudged: true };
  if (typeof judged?.retryAfterMs !== 'number') {
    // A ban is the same in every tier. After its end, the answer depends on the tier.
    const bannedForMs = judged ? timesLeft(judged, Date.now() - at).bannedForMs : 0;
    return { retryAfterMs: null, isJudged: true, ...(bannedForMs > 0 && { bannedForMs }) };
  }
  const { retryAfterMs, lacksSlots = false } = timesLeft(judged, Date.now() - at);
  return { retryAfterMs, lacksSlots, isJudged: true };
}

const idOf = ({ name, key, dimension, within }: DeniedKey): string =>
  JSON.stringify([name, key, dimension, within]);
