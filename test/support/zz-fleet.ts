import { setImmediate } from 'node:timers/promises';
import { WaitingRoom } from '../../src/limiter/waiting/wait.js';
import { HoldQueue, holdRequestOf } from '../../src/limiter/waiting/queue.js';
import { limiterOn } from './clock.js';
import { memoryStore } from '../../src/index.js';
import { TestTiming } from './timing.js';

let seed = 12345;
const rnd = () => ((seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff);
Math.random = rnd;

export async function run(options: any, load: any, ms = 10000, far = 8, log = false) {
  const timing = new TestTiming();
  const limiter: any = limiterOn(memoryStore({ clock: timing.clock }), options);
  let calls = 0;
  const grants: { p: number; came: number; went: number }[] = [];
  const rooms = [0, 0, 0, far].map((d, p) => {
    const own = {
      now: () => timing.now(),
      after: (t: number, run: () => void) => timing.after(Math.ceil(t) + 0.1 + rnd() * 1.2, run),
    };
    const go = (t: number) => new Promise<void>((r) => timing.after(t, r));
    const held = new HoldQueue(1e4, 1e4, own);
    let last = -1;
    return new WaitingRoom(1e4, 1e4, own, {
      isShared: true, decide: async (key: any, cost: number, set: any, peek: boolean) => {
        if (timing.now() !== last) calls++;
        last = timing.now();
        const j = 0.1 + rnd() * 0.2;
        await go(d + j);
        const x = peek ? await limiter.peek(key, { cost }) : limiter.decide(key, cost, set);
        await go(d + 0.1);
        return x;
      },
      hold: async (decision: any, signal: any) => {
        const o = await held.hold(holdRequestOf(decision), signal);
        if (o !== 'turn') { await decision.cancel(); throw new Error(o); }
        return decision;
      },
    });
  });
  const one = (p: number) => {
    const came = timing.now();
    return rooms[p]!.wait({ key: 'k', set: limiter.set, ids: ['k'] }, 1, 6000000, undefined).then(() => { grants.push({ p, came, went: timing.now() }); if (log) console.log(p, came.toFixed(0), timing.now().toFixed(0)); });
  };
  if (load.closed) for (let p = 0; p < 4; p++) for (let i = 0; i < load.closed; i++) {
    const loop = async () => { await new Promise<void>((r) => timing.after(rnd() * 100, r)); for (;;) await one(p); };
    void loop();
  }
  if (load.open) for (let p = 0; p < 4; p++) {
    const next = () => { if (timing.now() > load.until) return; void one(p); timing.after((-Math.log(1 - rnd()) * 1000) / (load.open / 4), next); };
    next();
  }
  await timing.advance(ms, () => setImmediate());
  const total = grants.length;
  const warm = grants.filter(({ went }) => went > 1000 && went < (load.until ?? ms));
  let over = 0; const overs: number[] = [];
  for (const a of grants) { let m = 0; for (const b of grants) if (b.came > a.came && b.went < a.went) m = Math.max(m, b.came - a.came); over = Math.max(over, m); overs.push(m); }
  overs.sort((x, y) => x - y);
  const share = warm.filter(({ p }) => p === 3).length / (warm.length / 4);
  const shares = [0, 1, 2, 3].map((p) => (warm.filter((g) => g.p === p).length / (warm.length / 4)).toFixed(2)).join(' ');
  const line = Math.max(...grants.map((g) => g.went - g.came));
  return { total, perS: (warm.length / ((load.until ?? ms) / 1000 - 1)).toFixed(1), callsPer: (calls / total).toFixed(2), over: over.toFixed(0), p99: overs[Math.floor(overs.length * 0.99)]?.toFixed(0), med: overs[overs.length >> 1]?.toFixed(0), shares, longest: line.toFixed(0) };
}
const policies: Record<string, any> = {
  'gcra 50/1s burst 1': { algorithm: 'gcra', limit: 50, window: '1s', burst: 1 },
  'token-bucket 50/1s': { algorithm: 'token-bucket', limit: 50, window: '1s' },
  'gcra 3000/1m burst 1': { algorithm: 'gcra', limit: 3000, window: '1m', burst: 1 },
  'leaky maxDelay 30s': { algorithm: 'leaky-bucket', limit: 50, window: '1s', burst: 1, maxDelay: '30s' },
  'sliding-window 50/1s': { limit: 50, window: '1s' },
  'sliding-log 50/1s': { algorithm: 'sliding-log', limit: 50, window: '1s' },
  'fixed 50/1s': { algorithm: 'fixed-window', limit: 50, window: '1s' },
  'gcra 5/1s burst 1': { algorithm: 'gcra', limit: 5, window: '1s', burst: 1 },
  'gcra 1/1s burst 1': { algorithm: 'gcra', limit: 1, window: '1s', burst: 1 },

};
const loads: Record<string, any> = { 'closed 1': { closed: 1 }, 'closed 2': { closed: 2 }, 'closed 5': { closed: 5 }, 'closed 10': { closed: 10 }, 'closed 30': { closed: 30 }, 'open 60/s 5s': { open: 60, until: 5000 }, 'open 100/s 5s': { open: 100, until: 5000 } };
const want = process.argv[2]; const wl = process.argv[3];
for (const [pn, p] of Object.entries(policies)) for (const [ln, l] of Object.entries(loads)) {
  if (want && !pn.includes(want)) continue;
  if (wl && !ln.includes(wl)) continue;
  const r = await run(p, l, Number(process.env.MS ?? 10000));
  console.log(pn.padEnd(22), ln.padEnd(14), JSON.stringify(r).replaceAll('"', ''));
}
