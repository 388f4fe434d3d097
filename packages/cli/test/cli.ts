// Runs command lines in this process, with streams of their own.
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { run } from '../src/program.js';
import type { Streams } from '../src/io.js';
import { root } from '../../../scripts/lib/run.mjs';

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The output and the exit code of `headgate ...args`. */
export async function headgate(args: readonly string[], given: Partial<Streams> = {}): Promise<Outcome> {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const written = Promise.all([text(stdout), text(stderr)]);
  const streams: Streams = { stdin: Readable.from([]), stdout, stderr, env: {}, cwd: root, ...given };
  const code = await run(args, streams);
  stdout.end();
  stderr.end();
  const [out, err] = await written;
  return { code, stdout: out, stderr: err };
}

/** Options of a store whose limiters publish themselves at once. */
export const TELLING = { localDenials: false, publish: '20ms' } as const;

/** Resolves when limiters of these names have published themselves. */
export async function told(where: readonly string[], ...names: string[]): Promise<void> {
  for (;;) {
    const { limiters } = (await json('limits', ...where)) as { limiters: { name: string }[] };
    if (names.every((name) => limiters.some((limiter) => limiter.name === name))) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The JSON output of a command line; an error if the command fails. */
export async function json(...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await headgate(['--json', ...args]);
  if (![0, 3, 5].includes(code)) throw new Error(`${code}: ${stderr}`);
  return JSON.parse(stdout) as unknown;
}

/** The JSON lines that a command line writes; an error if it fails. */
export async function jsonLines(...args: string[]): Promise<Record<string, unknown>[]> {
  const { code, stdout, stderr } = await headgate(['--json', ...args]);
  if (code !== 0) throw new Error(`${code}: ${stderr}`);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
