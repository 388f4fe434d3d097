import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Call, rigs } from './worker.js';

type Rigs = typeof rigs;
export type RigName = keyof Rigs;
type Start<N extends RigName> = Awaited<ReturnType<Rigs[N]>>['start'];
export type RigOptions<N extends RigName> = Parameters<Start<N>>[0];
type Rig<N extends RigName> = Awaited<ReturnType<Start<N>>>;

/** A rig in another process. */
export type Remote<N extends RigName> = {
  readonly [M in keyof Rig<N>]: Rig<N>[M] extends (...args: infer A) => infer R
    ? (...args: A) => Promise<Awaited<R>>
    : never;
} & { end(): Promise<void> };

/** Starts a rig in a separate process, so that other rigs neither slow the rig down nor count as its memory. */
export async function startRig<N extends RigName>(
  dist: string,
  name: N,
  options: RigOptions<N>,
): Promise<Remote<N>> {
  const child = fork(join(dist, 'worker.js'), [name], {
    execArgv: ['--expose-gc', '--max-old-space-size=8192'],
    env: { ...process.env, NODE_ENV: 'production' },
    serialization: 'advanced',
  });
  const gone = once(child, 'exit').then(([code]) => {
    throw new Error(`The rig's process ended (${String(code)}).`);
  });
  gone.catch(() => {});
  const ask = async (...call: Call): Promise<unknown> => {
    const answer = once(child, 'message');
    child.send(call);
    const [value] = (await Promise.race([answer, gone])) as unknown[];
    return value;
  };
  const end = () => {
    if (child.connected) child.disconnect();
    return gone.catch(() => {});
  };
  await ask('start', options);
  return new Proxy({} as Remote<N>, {
    get(_, method: string) {
      // The object is awaited, so it must not have a method `then`.
      if (method === 'then') return undefined;
      return method === 'end' ? end : (...args: unknown[]) => ask(method, ...args);
    },
  });
}
