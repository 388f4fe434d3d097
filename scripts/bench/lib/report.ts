import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { cpus, totalmem } from 'node:os';
import { findProgram } from '../../programs.mjs';
import type { Section } from './part.js';
import type { Sample } from './stats.js';

export const fixed = (value: number, digits: number) => value.toFixed(digits);

/** 10,000 */
export const count = (value: number) => value.toLocaleString('en-US');

/** 118k, 6.24M */
export function rate(value: number): string {
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)}M`;
  return value >= 1e4 ? `${(value / 1e3).toFixed(0)}k` : value.toFixed(0);
}

/** The median, with the least and the most: `118 (101-130)`. */
export function spread({ median, low, high }: Sample, digits: number | ((value: number) => string)): string {
  const show = typeof digits === 'number' ? (value: number) => value.toFixed(digits) : digits;
  return `${show(median)} (${show(low)}-${show(high)})`;
}

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
