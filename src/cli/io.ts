import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';
import { printableJson } from '../common/printable.js';

/** What a command reads and writes; tests pass their own. */
export interface Streams {
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  readonly stderr: Writable & { readonly isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative paths, and packages, are looked for from here. */
  readonly cwd: string;
  /** Calls once at Ctrl-C instead of ending the process; returns what undoes that. */
  readonly onInterrupt?: (listener: () => void) => () => void;
}

/** The streams, and how to write to them. */
export interface Io extends Streams {
  /** What was typed after `headgate`. */
  readonly args: readonly string[];
  /** `--json`: write JSON, for programs. */
  readonly json: boolean;
  /** Whether people watch the output as it comes. */
  readonly isTTY: boolean;
  /** Columns of the terminal; 80 if there is none. */
  readonly width: number;
  /** For standard output; without effect where colours are not wanted. */
  readonly colors: Colors;
  /** What the process will exit with, unless there is an error. */
  exitCode: number;
}

export type Colors = ReturnType<typeof pc.createColors>;

export function createIo(streams: Streams, args: readonly string[], json: boolean): Io {
  const { stdout, env } = streams;
  const isTTY = stdout.isTTY ?? false;
  return {
    ...streams,
    args,
    json,
    isTTY,
    width: stdout.columns ?? 80,
    colors: pc.createColors(!env.NO_COLOR && (Boolean(env.FORCE_COLOR) || isTTY)),
    exitCode: 0,
  };
}

/** Writes to standard output, no faster than it is read. */
export async function write({ stdout }: Io, text: string): Promise<void> {
  if (!stdout.write(text)) await once(stdout, 'drain');
}

/** Writes one JSON document, on several lines. */
export function writeJson(io: Io, value: unknown): Promise<void> {
  return write(io, `${printableJson(JSON.stringify(value, null, 2))}\n`);
}

/** Writes one line of JSON Lines. */
export function writeJsonLine(io: Io, value: unknown): Promise<void> {
  return write(io, `${printableJson(JSON.stringify(value))}\n`);
}
