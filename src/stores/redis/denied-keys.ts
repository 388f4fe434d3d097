import type { Reply } from '../../contract/store.js';
import { addVerdict, countOf, remainingOf, resetOf, waitOf } from '../../contract/verdicts.js';

/** What the store has denied to a key, and for how long. Times are those of the memory's clock. */
export interface Denial {
  readonly policies: string;
  /** Of a denial by keys of several dimensions: all of them. Undefined: it denies whatever the other keys are. */
  readonly keys?: string | undefined;
  readonly cost: number;
  readonly reply: Reply;
  /** When the reply came: the wait that it tells began no later. */
  readonly received: number;
  readonly until: number;
}

/** Remembers what was denied, by key. */
export class DeniedKeys {
  readonly #most: number;
  /** The one that was noted last is the last. */
  readonly #denials = new Map<string, Denial>();

  /** @param most keys; then the oldest give way */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#denials.size;
  }

  get(key: string): Denial | undefined {
    return this.#denials.get(key);
  }

  /** Two that are over leave for each that comes, so that the memory shrinks after a flood. */
  set(key: string, denial: Denial): void {
    this.#denials.delete(key);
    for (let i = 0; i < 2; i++) {
      const oldest = this.#denials.entries().next().value;
      if (oldest && (oldest[1].until <= denial.received || this.size >= this.#most)) this.delete(oldest[0]);
    }
    this.#denials.set(key, denial);
  }

  delete(key: string): void {
    this.#denials.delete(key);
  }
}

/** What a denial says at this moment to a request of this cost. Undefined if it is over, or was of another cost. */
export function replyOf(
  { cost, reply, received, until }: Denial,
  asked: number,
  time: number,
): Reply | undefined {
  // A ban denies any cost.
  if (time >= until || (cost !== asked && reply.ban === 0)) return undefined;
  const { now, ban, verdicts } = reply;
  const passed = Math.floor(time - received);
  const later: number[] = [];
  for (let i = 0; i < countOf(verdicts); i++) {
    const wait = waitOf(verdicts, i);
    const left = wait > 0 ? rest(wait, passed) : wait;
    addVerdict(later, left, remainingOf(verdicts, i), rest(resetOf(verdicts, i), passed));
  }
  // What is denied is not charged: nobody asks for its step.
  return { now: now + passed, step: 0, ban: ban === 0 ? 0 : ban - passed, verdicts: later };
}

/** What is left of a time that many ms later; none if it was none. */
function rest(ms: number, passed: number): number {
  return ms > passed ? ms - passed : 0;
}
