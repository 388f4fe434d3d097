import autocannon from 'autocannon';
import { barOf, redisPart, spreads, tableOf, type Section } from '../lib/part.js';
import { fixed, rate } from '../lib/figures.js';
import type { Sample } from '../lib/stats.js';
import type { HttpRigOptions } from '../rigs/http.js';

const subjects = ['none', 'headgate', 'headgate, the fields of peers'] as const;
const limiters: Record<HttpRigOptions['framework'], readonly HttpRigOptions['limiter'][]> = {
  express: [...subjects, 'express-rate-limit', 'rate-limiter-flexible'],
  fastify: [...subjects, '@fastify/rate-limit', 'rate-limiter-flexible'],
};

/** A limit higher than the number of requests in all rounds. */
const MAX_REQUESTS = 1e6;

/** The CPU that a limiter adds to a request: hello world, 64 connections from one address. */
export const http = redisPart('http', async (bench, port) => {
  const sections: Section[] = [];
  for (const framework of ['express', 'fastify'] as const) {
    for (const redisPort of [undefined, port]) {
      for (const limit of [MAX_REQUESTS, 1]) {
        const store = redisPort === undefined ? 'in memory' : 'on Redis';
        const outcome = limit === 1 ? 'denied' : 'admitted';
        const what = `${framework}, ${store}, ${outcome}`;
        // Two processes of the same code differ more than two limiters, so each round has new processes.
        const results = await bench.sample(what, limiters[framework], async (limiter) => {
          const rig = await bench.start('http', { framework, limiter, redisPort, limit });
          const url = `http://127.0.0.1:${await rig.port()}/`;
          const load = () => autocannon({ url, connections: 64, duration: 1 });
          await load();
          const before = await rig.cpu();
          const { requests, non2xx } = await load();
          const cpu = (await rig.cpu()) - before;
          await rig.end();
          const denied = limit === 1 && limiter !== 'none';
          if (denied ? non2xx < requests.total - 1 : non2xx > 0) throw new Error(`${what}: not as expected.`);
          return { perSecond: requests.average, cpu: cpu / requests.total };
        });
        sections.push(section(what, redisPort === undefined, results));
      }
    }
  }
  return sections;
});

type Limiter = HttpRigOptions['limiter'];
type Results = ReadonlyMap<Limiter, Record<'perSecond' | 'cpu', Sample>>;

function section(title: string, memory: boolean, results: Results): Section {
  const extra = (limiter: Limiter): number =>
    results.get(limiter)!.cpu.median - results.get('none')!.cpu.median;
  const peers = [...results.keys()].filter(
    (limiter) => limiter !== 'none' && !limiter.startsWith('headgate'),
  );
  const leanest = Math.min(...peers.map(extra));
  // The added CPU can be negative, because a denial is a shorter answer.
  const limit = memory ? leanest : Math.max(leanest / 2, 0);
  const bar = memory ? 'extra CPU below every peer' : 'extra CPU at most half of the leanest peer';
  const measured = `${fixed(extra('headgate'), 1)} us of ${fixed(limit, 1)}`;
  const bars = [barOf(bar, measured, extra('headgate') <= limit)];
  return tableOf(
    `HTTP, ${title}`,
    results,
    [
      ...[spreads('requests/s', 'perSecond', rate), spreads('CPU us a request', 'cpu', 1)],
      ['extra us', (_, limiter) => fixed(extra(limiter), 1)],
    ],
    { bars },
  );
}
