// npm run bench [-- <part> ...] [--rounds=9] [--json=file] [--strict]
// Prints a report in Markdown, and writes its figures to a file. Progress goes to stderr.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SingleBar } from 'cli-progress';
import { build, type Plugin } from 'esbuild';
import { buildPackage } from '../lib/library.js';
import { root } from '../lib/run.mjs';
import { startRig, type Remote, type RigName } from './lib/child.js';
import type { Bench, Section } from './lib/part.js';
import { environment, markdown } from './lib/report.js';
import { summarize } from './lib/stats.js';
import { alone } from './parts/alone.js';
import { bytes } from './parts/bytes.js';
import { cluster } from './parts/cluster.js';
import { cost, overrides } from './parts/cost.js';
import { denials } from './parts/denials.js';
import { distance } from './parts/distance.js';
import { http } from './parts/http.js';
import { log } from './parts/log.js';
import { memory } from './parts/memory.js';
import { outbound } from './parts/outbound.js';
import { postgres } from './parts/postgres.js';
import { redis } from './parts/redis.js';
import { scaling } from './parts/scaling.js';
import { shares } from './parts/shares.js';
import { slices } from './parts/slices.js';
import { sqlite } from './parts/sqlite.js';
import { waiting } from './parts/waiting.js';

const parts = [
  ...[memory, denials, redis, alone, cost, overrides, distance, cluster],
  ...[bytes, http, scaling, log, waiting, outbound, slices, shares, sqlite, postgres],
];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '7' },
    json: { type: 'string', default: 'bench.json' },
    strict: { type: 'boolean', default: false },
  },
});
const unknown = positionals.find((name) => !parts.some((part) => part.name === name));
if (unknown !== undefined || !(Number(values.rounds) >= 1)) {
  console.error(
    `usage: npm run bench -- [${parts.map(({ name }) => name).join('|')} ...] [--rounds=7] [--json=file] [--strict]`,
  );
  process.exit(2);
}

const dist = join(root, `dist.${process.pid}`);
process.on('exit', () => rmSync(dist, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

const running = new Set<Remote<RigName>>();
const bench: Bench = {
  rounds: Number(values.rounds),
  async start(rig, options) {
    const remote = await startRig(dist, rig, options);
    running.add(remote);
    return remote;
  },
  async startAll(rig, subjects, optionsOf) {
    const started = subjects.map(
      async (subject) => [subject, await bench.start(rig, optionsOf(subject))] as const,
    );
    return new Map(await Promise.all(started));
  },
  async sample(what, subjects, measure) {
    const rounds = await bench.interleave(what, subjects, measure);
    return new Map([...rounds].map(([subject, values]) => [subject, summarize(values)]));
  },
  async interleave(what, subjects, measure) {
    const results = new Map(
      subjects.map((subject) => [subject, [] as Awaited<ReturnType<typeof measure>>[]]),
    );
    const bar = new SingleBar({ format: `{bar} {percentage}% ${what}`, stream: process.stderr });
    bar.start(bench.rounds * subjects.length, 0);
    for (let round = 0; round < bench.rounds; round++) {
      for (const i of subjects.keys()) {
        const subject = subjects[(round + i) % subjects.length]!;
        results.get(subject)!.push(await measure(subject));
        bar.increment();
      }
    }
    bar.stop();
    return results;
  },
};

// The bench measures the compiled package, as it is published. A loader that transforms code makes a getter of each import.
if (!(await buildPackage(dist))) console.error('The build has type errors.');
const published: Plugin = {
  name: 'published',
  setup({ onResolve }) {
    onResolve({ filter: /^headgate(\/|$)/ }, ({ path }) => ({
      path: `./esm/${path.split('/')[1] ?? 'index'}.js`,
      external: true,
    }));
  },
};
await build({
  ...{ entryPoints: [join(root, 'scripts/bench/lib/worker.ts')], outdir: dist, plugins: [published] },
  ...{ bundle: true, splitting: true, packages: 'external', platform: 'node', format: 'esm' },
});
const sections: Section[] = [];
for (const part of parts) {
  if (positionals.length > 0 && !positionals.includes(part.name)) continue;
  try {
    sections.push(...(await part.run(bench)));
  } finally {
    await Promise.all([...running].map((rig) => rig.end()));
    running.clear();
  }
}
console.log(markdown(sections));
writeFileSync(values.json, `${JSON.stringify({ ...environment(), sections }, null, 2)}\n`);
const missed = sections.flatMap(({ bars = [] }) => bars).filter(({ pass }) => !pass);
process.exit(values.strict && missed.length > 0 ? 1 : 0);
