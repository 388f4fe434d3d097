#!/usr/bin/env node
import { run } from './program.js';

const { stdin, stdout, stderr, env } = process;

// Who reads has had enough: `headgate list | head`.
stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : 1);
});

process.exitCode = await run(process.argv.slice(2), { stdin, stdout, stderr, env, cwd: process.cwd() });
