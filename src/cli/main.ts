#!/usr/bin/env node
import { run } from './program.js';

const { stdin, stdout, stderr, env } = process;

// Who reads has had enough: `headgate list | head`.
stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : 1);
});

const code = await run(process.argv.slice(2), { stdin, stdout, stderr, env, cwd: process.cwd() });
// Once all is written: a client may hold on for a while to a server that is gone.
stdout.write('', () => stderr.write('', () => process.exit(code)));
