#!/usr/bin/env node
import { userInfo } from 'node:os';
import type { Streams } from './io.js';
import { run } from './program.js';

const { stdin, stdout, stderr } = process;
const env = { USER: systemUser(), ...process.env };
const streams: Streams = { stdin, stdout, stderr, env, cwd: process.cwd(), onInterrupt };

stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // The reader has closed the pipe: `headgate list | head`. A `peek` that denies keeps its exit code.
  if (code === 'EPIPE') process.exit(streams.exitCode);
  stderr.write(`The output could not be written: ${message}\n`, () => process.exit(1));
});

// Without a reader of standard error, the command continues, and the exit code is the outcome.
stderr.on('error', () => {});

/** The user's name. In a container, the user may have no name. */
function systemUser(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

function onInterrupt(listener: () => void): () => void {
  process.once('SIGINT', listener);
  return () => process.off('SIGINT', listener);
}

void run(process.argv.slice(2), streams).then((code) => {
  // The process ends after all output is written, because a client may keep trying to reach a server that is gone.
  stdout.write('', () => stderr.write('', () => process.exit(code)));
});
