import autocannon from 'autocannon';
import { startServer } from '../../../test/support/servers.js';
import type { Bar, Part, Section } from '../lib/part.js';
import { fixed, rate, spread } from '../lib/report.js';
import { summarize } from '../lib/stats.js';
import type { HttpRigOptions } from '../rigs/http.js';

const limiters = {
  express: [
    'none',
    'headgate',
    'headgate, the fields of peers',
    'express-rate-limit',
    'rate-limiter-flexible',
  ],
  fastify: [
    'none',
    'headgate',
    'headgate, the fields of peers',
    '@fastify/rate-limit',
    'rate-limiter-flexible',
  ],
} as const satisfies Record<HttpRigOptions['framework'], readonly HttpRigOptions['limiter'][]>;

/** More than all rounds make. */
const MANY = 1e6;

/** What a limiter adds to a request's CPU: hello world, 64 connections from one address. */
export const http: Part = {
  name: 'http',
  async run(bench) {
    const server = await startServer('redis');
    const sections: Section[] = [];
    try {
      for (const framework of ['express', 'fastify'] as const) {
        for (const redisPort of [undefined, server.port]) {
          for (const limit of [MANY, 1]) {
            const store = redisPort === undefined ? 'in memory' : 'on Redis';
            const outcome = limit === 1 ? 'denied' : 'admitted';
            const what = `${framework}, ${store}, ${outcome}`;
            // Two processes of the same code differ by more than two limiters do: each round has one of its own.
            const rounds = await bench.interleave(what, limiters[framework], async (limiter) => {
              const rig = await bench.start('http', { framework, limiter, redisPort, limit });
              const url = `http://127.0.0.1:${await rig.port()}/`;
              const load = () => autocannon({ url, connections: 64, duration: 1 });
              await load();
              const before = await rig.cpu();
              const { requests, non2xx } = await load();
              const cpu = (await rig.cpu()) - before;
              await rig.end();
              const denied = limit === 1 && limiter !== 'none';
              if (denied ? non2xx < requests.total - 1 : non2xx > 0)
                throw new Error(`${what}: not as expected.`);
              return { perSecond: requests.average, cpu: cpu / requests.total };
            });
            sections.push(section(what, redisPort === undefined, [...rounds]));
          }
        }
      }
      return sections;
    } finally {
      await server.stop();
    }
  },
};

type Rounds = [HttpRigOptions['limiter'], Record<'perSecond' | 'cpu', number>[]][];

function section(what: string, memory: boolean, rounds: Rounds): Section {
  const results = rounds.map(([limiter, values]) => ({ limiter, ...summarize(values) }));
  const none = results.find(({ limiter }) => limiter === 'none')!.cpu.median;
  const extra = ({ cpu }: { cpu: { median: number } }) => cpu.median - none;
  const ours = extra(results.find(({ limiter }) => limiter === 'headgate')!);
  const peers = results.filter(({ limiter }) => limiter !== 'none' && !limiter.startsWith('headgate'));
  const least = Math.min(...peers.map(extra));
  // What a limiter adds can be less than nothing: a denial is a shorter answer.
  const most = memory ? least : Math.max(least / 2, 0);
  const bar: Bar = {
    bar: memory ? 'extra CPU below every peer' : 'extra CPU at most half of the leanest peer',
    measured: `${fixed(ours, 1)} us of ${fixed(most, 1)}`,
    pass: ours <= most,
  };
  return {
    title: `HTTP, ${what}`,
    columns: ['', 'requests/s', 'CPU us a request', 'extra us'],
    rows: results.map((result) => [
      result.limiter,
      spread(result.perSecond, rate),
      spread(result.cpu, 1),
      fixed(extra(result), 1),
    ]),
    bars: [bar],
    data: results,
  };
}
