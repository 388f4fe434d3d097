import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { cpus, totalmem } from 'node:os';
import { findProgram } from '../../programs.mjs';
import type { Section } from './part.js';

const rivals = [
  'rate-limiter-flexible',
  'express-rate-limit',
  'rate-limit-redis',
  '@fastify/rate-limit',
  'ioredis',
  'redis',
  'express',
  'fastify',
];

/** The environment of the measurement. */
export function environment() {
  const require = createRequire(import.meta.url);
  const version = (name: string) =>
    (require(`../../../node_modules/${name}/package.json`) as { version: string }).version;
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: `${cpus().length} x ${cpus()[0]?.model.trim() ?? 'CPU'}, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    node: process.version,
    server: serverOf(execFileSync(findProgram('redis'), ['--version'], { encoding: 'utf8' })),
    versions: Object.fromEntries(rivals.map((name) => [name, version(name)])),
  };
}

/** `Redis 7.0.15`, `Valkey 9.1.2`: the program of REDIS_SERVER may be either. */
function serverOf(version: string): string {
  return version.replace(/^(\w+) server v=(\S+).*$/s, '$1 $2');
}

export function markdown(sections: readonly Section[]): string {
  const { date, machine, node, server, versions } = environment();
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    `${date}. ${machine}. Node ${node}, ${server}, ${named.join(', ')}.`,
    ...sections.map(sectionOf),
    '',
  ].join('\n\n');
}

function sectionOf({ title, note, columns, rows, bars = [] }: Section): string {
  const blocks = [`### ${title}`, ...(note ? [note] : []), table(columns, rows)];
  if (bars.length > 0) {
    const rows = bars.map(({ bar, measured, pass }) => [bar, measured, pass ? 'pass' : '**FAIL**']);
    blocks.push(table(['bar', 'measured', ''], rows));
  }
  return blocks.join('\n\n');
}

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(columns), line(columns.map((_, i) => (i === 0 ? '---' : '--:'))), ...rows.map(line)].join(
    '\n',
  );
}
