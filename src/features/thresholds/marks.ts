import type { Crossing } from './contract/crossing.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { stateName } from '../charge-history.js';

/** The tag of the marks of reported thresholds. Unlike the tags of state, the tags of features begin with a capital letter. */
export const THRESHOLD_TAG = 'T1:';

/** The tags of the marks of a policy. */
export function marksOf({ id, thresholds }: CompiledPolicy): readonly string[] {
  return thresholds ? [THRESHOLD_TAG + id] : [];
}

/** The thresholds that were reported: the end of their window, then each in thousandths with the highest limit at which it was reported. */
export type Mark = readonly [until: number, ...levels: number[]];

/** The marks of a key, by the policy's id. */
export interface Marks {
  read(policy: string): Mark | undefined;
  /** @param mark without an end to forget the reported thresholds */
  write(policy: string, mark: Mark): void;
  /** The crossings of the current question. */
  readonly crossings: Crossing[];
}

/** The marks among the entries of a key's state. @param crossings receives the crossings of the current question */
export function marksAmong(
  entries: Map<string, readonly [number, ...(string | number)[]]>,
  crossings: Crossing[],
): Marks {
  return {
    read: (policy) => entries.get(THRESHOLD_TAG + policy) as Mark | undefined,
    write: (policy, mark) => entries.set(THRESHOLD_TAG + policy, mark),
    crossings,
  };
}

/** The thresholds that were reported in a memory store. Beyond a number of keys and policies, the oldest marks are forgotten. */
export class AllMarks {
  readonly crossings: Crossing[] = [];
  readonly #most: number;
  readonly #marks = new Map<string, Mark>();

  constructor(most: number) {
    this.#most = most;
  }

  /** @param scope the name of a limiter and a dimension */
  of(scope: string, key: string, now: number): Marks {
    const name = (policy: string): string => stateName(`${scope} ${policy}`, key);
    return {
      crossings: this.crossings,
      read: (policy) => this.#marks.get(name(policy)),
      write: (policy, mark) => {
        // A renewed mark is the newest again.
        this.#marks.delete(name(policy));
        if (mark[0] > 0) this.#marks.set(name(policy), mark);
        this.#sweep(now);
      },
    };
  }

  #sweep(now: number): void {
    for (const [oldest, [until]] of this.#marks) {
      if (until > now && this.#marks.size <= this.#most) break;
      this.#marks.delete(oldest);
    }
  }

  clear(): void {
    this.#marks.clear();
  }
}
