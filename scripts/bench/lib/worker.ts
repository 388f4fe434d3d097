// A separate process for one rig: loads the rig, then calls its methods on request. An error ends the process.
export const rigs = {
  memory: () => import('../rigs/memory.js'),
  redis: () => import('../rigs/redis.js'),
  http: () => import('../rigs/http.js'),
  distance: () => import('../rigs/distance.js'),
  sqlite: () => import('../rigs/sqlite.js'),
  postgres: () => import('../rigs/postgres.js'),
  waiting: () => import('../rigs/waiting.js'),
  outbound: () => import('../rigs/outbound.js'),
};

export type Call = readonly [method: string, ...args: readonly unknown[]];
type Methods = Record<string, (...args: readonly unknown[]) => unknown>;

const load = rigs[process.argv[2] as keyof typeof rigs];
let rig: Methods = {
  async start(options) {
    rig = (await (await load()).start(options as never)) as unknown as Methods;
  },
};

const answer = async ([method, ...args]: Call) => process.send!((await rig[method]!(...args)) ?? null);
process.on('message', (call: Call) => void answer(call));
process.on('disconnect', () => process.exit());
