// A process of its own for one rig: loads it, then calls its methods as they are asked for.

export interface Call {
  readonly method: string;
  readonly args: readonly unknown[];
}
export type Answer = { readonly value: unknown } | { readonly error: string };

export const rigs = {
  memory: () => import('../rigs/memory.js'),
  redis: () => import('../rigs/redis.js'),
  http: () => import('../rigs/http.js'),
  distance: () => import('../rigs/distance.js'),
  sqlite: () => import('../rigs/sqlite.js'),
  waiting: () => import('../rigs/waiting.js'),
  outbound: () => import('../rigs/outbound.js'),
};

type Methods = Record<string, (...args: readonly unknown[]) => unknown>;

let rig: Methods = {
  async start(options) {
    const { start } = await rigs[process.argv[2] as keyof typeof rigs]();
    rig = (await start(options as never)) as unknown as Methods;
  },
};

process.on('message', ({ method, args }: Call) => void answer(method, args));
process.on('disconnect', () => process.exit());

async function answer(method: string, args: readonly unknown[]) {
  const reply = await run(method, args);
  process.send?.(reply);
}

async function run(method: string, args: readonly unknown[]): Promise<Answer> {
  try {
    return { value: await rig[method]!(...args) };
  } catch (error) {
    return { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
