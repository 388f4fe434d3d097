import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';
import { printableJson, printableLines, withoutSecrets, type AdminWarning } from 'headgate/admin';
import { inFlags, orUsage } from './errors.js';

/** The input and output of a command. Tests pass their own. */
export interface Streams {
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly columns?: number; readonly rows?: number };
  readonly stderr: Writable & { readonly isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The directory for relative paths, and for finding packages. */
  readonly cwd: string;
  /** Calls the listener once at Ctrl-C, instead of ending the process. Returns a function that removes the listener. */
  readonly onInterrupt?: (listener: () => void) => () => void;
  /** The process' exit code, unless there is an error. A command sets the code before it writes. */
  exitCode?: number;
}

export interface Io extends Streams {
  /** The words after `headgate`. */
  readonly args: readonly string[];
  /** `--json`: write JSON, for programs. */
  readonly json: boolean;
  /** `--local`: moments are in the time zone of this machine, not in UTC. */
  readonly isLocal: boolean;
  /** Whether people watch the output while it is written. */
  readonly isTTY: boolean;
  /** The number of columns of the terminal, or 80 without a terminal. */
  readonly width: number;
  /** The colours for standard output. Without colours, the functions return their text unchanged. */
  readonly colors: Colors;
  exitCode: number;
}

export type Colors = ReturnType<typeof pc.createColors>;

/** @param flags the options of all commands */
export function createIo(
  streams: Streams,
  args: readonly string[],
  { json, isLocal }: Pick<Io, 'json' | 'isLocal'>,
): Io {
  const { stdout, env } = streams;
  const isTTY = stdout.isTTY ?? false;
  return Object.assign(streams, {
    args,
    json,
    isLocal,
    isTTY,
    width: stdout.columns ?? 80,
    colors: pc.createColors(wantsColors(env, isTTY)),
    exitCode: 0,
  });
}

/** NO_COLOR with any value disables colours (no-color.org), and so does FORCE_COLOR=0, as in Node.js. */
function wantsColors({ NO_COLOR, FORCE_COLOR }: Io['env'], isTTY: boolean): boolean {
  if (NO_COLOR) return false;
  return FORCE_COLOR ? !['0', 'false'].includes(FORCE_COLOR) : isTTY;
}

/** Writes to standard output, and waits until the reader keeps up. */
export async function write({ stdout }: Io, text: string): Promise<void> {
  if (!stdout.write(text)) await once(stdout, 'drain');
}

/** Writes one JSON document, on several lines. */
export function writeJson(io: Io, value: unknown): Promise<void> {
  return write(io, `${printableJson(JSON.stringify(value, null, 2))}\n`);
}

export function writeJsonLine(io: Io, value: unknown): Promise<void> {
  return write(io, `${printableJson(JSON.stringify(value))}\n`);
}

export function writeAnswer(io: Io, json: unknown, text: () => string): Promise<void> {
  return io.json ? writeJson(io, json) : write(io, text());
}

/** Reads a file that the command line names. @throws CliError `USAGE` */
export const readText = (what: string, file: string, { cwd }: Io): string =>
  orUsage(
    () => readFileSync(resolve(cwd, file), 'utf8'),
    (message) => `${what}: it cannot be read: ${message}.`,
  );

export interface Warning {
  readonly code: string;
  readonly message: string;
}

export function warn(io: Io, warnings: readonly (Warning | AdminWarning)[]): void {
  for (const { code, message: text } of warnings) {
    const message = inFlags(text);
    complain(io, { warning: true, code, message }, `warning: ${message}`);
  }
}

/** The warnings of several changes, each message once: many keys of a file may have the same doubt. */
export const warnOnce = (io: Io, warnings: readonly AdminWarning[]): void =>
  warn(io, [...new Map(warnings.map((each) => [each.message, each])).values()]);

/** Writes to standard error: an object for programs, or a text for people. */
export function complain({ stderr, json }: Io, report: object, text: string): void {
  const written = withoutSecrets(
    json ? printableJson(JSON.stringify(report)) : printableLines(`headgate: ${text}`),
  );
  stderr.write(`${written}\n`);
}
