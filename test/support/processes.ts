// Processes of a test, which end with it.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { compileChild } from './programs.js';
import { watch } from './servers.js';

/** Starts a script of this folder, or another one by its whole path. Resolves at the script's first message, which reports readiness. */
export async function startChild(script: string, ...args: readonly string[]): Promise<ChildProcess> {
  const child = fork(await compileChild(script), args, { execArgv: [] });
  watch(child);
  await once(child, 'message');
  return child;
}

/** Kills a process. Resolves when it is gone, even if it was gone before. */
export async function killChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}
