import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Answer, Call, rigs } from './worker.js';

type Rigs = typeof rigs;
export type RigName = keyof Rigs;
type Module<N extends RigName> = Awaited<ReturnType<Rigs[N]>>;
export type RigOptions<N extends RigName> = Omit<Parameters<Module<N>['start']>[0], 'dist'>;
type Rig<N extends RigName> = Awaited<ReturnType<Module<N>['start']>>;

/** A rig in another process. */
export type Remote<N extends RigName> = {
  readonly [M in keyof Rig<N>]: Rig<N>[M] extends (...args: infer A) => infer R
    ? (...args: A) => Promise<Awaited<R>>
    : never;
} & { end(): Promise<void> };

/** Starts a rig in a process of its own: nothing that another one did slows it or counts as its memory. */
export async function startRig<N extends RigName>(
  name: N,
  options: RigOptions<N> & { dist: string },
): Promise<Remote<N>> {
  const child = fork(join(options.dist, 'worker.js'), [name], {
    execArgv: ['--expose-gc', '--max-old-space-size=8192'],
    env: { ...process.env, NODE_ENV: 'production' },
  });
  await ask(child, 'start', [options]);
  const remote = {
    end: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.disconnect();
      await gone;
    },
  };
  return new Proxy(remote, {
    get: (target, method) =>
      method === 'end'
        ? target.end
        : method === 'then'
          ? undefined
          : (...args: unknown[]) => ask(child, String(method), args),
  }) as Remote<N>;
}

async function ask(child: ChildProcess, method: string, args: readonly unknown[]): Promise<unknown> {
  const gone = new AbortController();
  const exit = once(child, 'exit', { signal: gone.signal }).then(([code]) => {
    throw new Error(`The rig's process ended (${String(code)}).`);
  });
  const answer = once(child, 'message', { signal: gone.signal });
  child.send({ method, args } satisfies Call);
  try {
    const [message] = (await Promise.race([answer, exit])) as [Answer];
    if ('error' in message) throw new Error(message.error);
    return message.value;
  } finally {
    answer.catch(() => {});
    exit.catch(() => {});
    gone.abort();
  }
}
