import { startServer } from '../../../test/support/servers.js';
import type { Remote, RigName, RigOptions } from './child.js';
import { fixed, spread } from './figures.js';
import type { Sample } from './stats.js';

/** A part of the bench: `npm run bench -- <name>`. */
export interface Part {
  readonly name: string;
  run(bench: Bench): Promise<Section[]>;
}

/** A table of the report, and the bars that its figures must reach. */
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
  /** The requirement: `'>= 3.5x the fastest stock peer'`. */
  readonly bar: string;
  readonly measured: string;
  readonly pass: boolean;
}

export interface Bench {
  /** Rounds of every measurement, of which the median counts. */
  readonly rounds: number;
  /** Starts a rig in a separate process, on the built package. The rig ends with the part at the latest. */
  start<N extends RigName>(rig: N, options: RigOptions<N>): Promise<Remote<N>>;
  /** A rig for each subject. */
  startAll<N extends RigName, S>(
    rig: N,
    subjects: readonly S[],
    optionsOf: (subject: S) => RigOptions<N>,
  ): Promise<Map<S, Remote<N>>>;
  /** Measures each subject once a round, and begins every round with another subject, so that a disturbance of the machine affects all subjects. */
  interleave<S, R>(
    what: string,
    subjects: readonly S[],
    measure: (subject: S) => Promise<R>,
  ): Promise<Map<S, R[]>>;
  /** The same, with a sample of each figure. */
  sample<S, K extends string>(
    what: string,
    subjects: readonly S[],
    measure: (subject: S) => Promise<Record<K, number>>,
  ): Promise<Map<S, Record<K, Sample>>>;
}

/** A part with a separate Redis while it runs. */
export function redisPart(name: string, run: (bench: Bench, port: number) => Promise<Section[]>): Part {
  return {
    name,
    async run(bench) {
      const server = await startServer('redis');
      try {
        return await run(bench, server.port);
      } finally {
        await server.stop();
      }
    },
  };
}

export async function endAll(rigs: ReadonlyMap<unknown, { end(): Promise<void> }>): Promise<void> {
  await Promise.all([...rigs.values()].map((rig) => rig.end()));
}

/** A column: its title, and the text for a row's result. */
type Column<S, R> = readonly [title: string, cell: (result: R, subject: S) => string];

/** A section with a row for each subject. */
export function tableOf<S, R>(
  title: string,
  results: ReadonlyMap<S, R>,
  columns: readonly Column<S, R>[],
  rest: Partial<Section> = {},
): Section {
  return {
    title,
    columns: ['', ...columns.map(([name]) => name)],
    rows: [...results].map(([subject, result]) => [
      String(subject),
      ...columns.map(([, cell]) => cell(result, subject)),
    ]),
    data: Object.fromEntries(results),
    ...rest,
  };
}

/** A column of medians. */
export const medians = <K extends string>(title: string, figure: K, digits: number) =>
  [title, (result: Record<K, Sample>) => fixed(result[figure].median, digits)] as const;

/** A column of medians, each with the least and the most. */
export const spreads = <K extends string>(title: string, figure: K, digits: Parameters<typeof spread>[1]) =>
  [title, (result: Record<K, Sample>) => spread(result[figure], digits)] as const;

export const barOf = (bar: string, measured: string, pass: boolean): Bar => ({ bar, measured, pass });

/** `figure` must be at least so many times `other`. */
export const atLeast = (bar: string, figure: number, other: number, limit: number): Bar =>
  barOf(bar, `${fixed(figure / other, 2)}x`, figure / other >= limit);

/** `figure` may be at most so many times `other`. */
export const atMost = (bar: string, figure: number, other: number, limit: number): Bar =>
  barOf(bar, `${fixed(figure / other, 2)}x`, figure / other <= limit);
