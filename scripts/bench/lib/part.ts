import type { Remote, RigName, RigOptions } from './child.js';

/** What `npm run bench -- <name>` runs. */
export interface Part {
  readonly name: string;
  run(bench: Bench): Promise<Section[]>;
}

/** A table of the report, and the bars that its figures are held against. */
export interface Section {
  readonly title: string;
  readonly note?: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly bars?: readonly Bar[];
  /** The figures behind the table, for the JSON. */
  readonly data: unknown;
}

export interface Bar {
  /** What is asked for: `'>= 3.5x the fastest stock peer'`. */
  readonly bar: string;
  readonly measured: string;
  readonly pass: boolean;
}

export interface Bench {
  /** Rounds of every measurement; its median counts. */
  readonly rounds: number;
  /** Starts a rig in a process of its own, on the built package. It ends with the part at the latest. */
  start<N extends RigName>(rig: N, options: RigOptions<N>): Promise<Remote<N>>;
  /**
   * Measures each subject once a round, beginning with another each time: what disturbs the machine for a while disturbs
   * all of them.
   */
  interleave<S, R>(
    what: string,
    subjects: readonly S[],
    measure: (subject: S) => Promise<R>,
  ): Promise<Map<S, R[]>>;
}

/** `figure` must be at least `least` (or at most, if `atMost`) times `other`. */
export function ratioBar(bar: string, figure: number, other: number, limit: number, atMost = false): Bar {
  const ratio = figure / other;
  return { bar, measured: `${ratio.toFixed(2)}x`, pass: atMost ? ratio <= limit : ratio >= limit };
}
