// The table of docs/versions.md: a version is tested if it is installed for `npm run test:all`.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import manifest from '../../package.json' with { type: 'json' };
import { root } from '../../scripts/lib/run.mjs';
import { findProgram } from '../../scripts/programs.mjs';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

/** The rows of the table, by software: tested and expected versions. */
const rows = new Map(
  [...read('docs/versions.md').matchAll(/^\| ([^|]+?) +\| ([^|]+?) +\| ([^|]+?) +\|/gm)].map(
    ([, software = '', tested = '', expected = '']) => [
      software.replace(/^`([^`]+)`.*/, '$1'),
      { tested, expected },
    ],
  ),
);

/** `7.0` of "7.0; 8.0 ([partly](...))": the versions without a note. */
const versionsOf = (cell: string): string[] => cell.split('; ')[0]!.split(', ');

/** Major and minor of a package under a name in node_modules. */
function installed(folder: string): string {
  const { version } = JSON.parse(read(`node_modules/${folder}/package.json`)) as { version: string };
  return version.split('.').slice(0, 2).join('.');
}

/** The installed versions of a package: under its name, and under others (`npm:express@4`). */
function versionsInstalled(name: string): string[] {
  const folders = Object.entries(manifest.devDependencies)
    .filter(([folder, range]) => folder === name || range.startsWith(`npm:${name}@`))
    .map(([folder]) => installed(folder));
  return folders.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
}

const packages = [...rows.keys()].filter((software) => software in manifest.devDependencies);

describe('the table of versions', () => {
  it('names every peer dependency', () => {
    const peers = Object.keys(manifest.peerDependencies).filter(
      (name) => !/@nestjs\/(common|microservices|websockets)/.test(name),
    );
    expect(packages).to.include.members(peers);
    expect(packages).to.include.members(['redis', 'iovalkey', '@upstash/redis']);
  });

  for (const name of packages) {
    it(`${name}: the tested versions are the installed ones, and the expected ones those that package.json accepts`, () => {
      const { tested, expected } = rows.get(name)!;
      expect(versionsOf(tested)).to.deep.equal(versionsInstalled(name));
      const range = (manifest.peerDependencies as Readonly<Record<string, string>>)[name];
      const majors = (text: string) => [...text.matchAll(/\b(\d+)(?:\.\d+)*/g)].map(([, major]) => major);
      if (range !== undefined) expect(majors(expected)).to.deep.equal(majors(range));
    });
  }

  it('TypeScript: the tested versions are the installed ones', () => {
    expect(versionsOf(rows.get('TypeScript')!.tested)).to.deep.equal(versionsInstalled('typescript'));
  });

  it('Node.js: the tested versions are those of npm run test:nodes', () => {
    const [, majors = ''] = /MAJORS = \[([^\]]+)\]/.exec(read('scripts/nodes.mjs'))!;
    expect(rows.get('Node.js')!.tested).to.equal(majors);
    expect(`>=${rows.get('Node.js')!.expected}`).to.equal(`${manifest.engines.node} and later`);
  });

  for (const [software, program] of [
    ['Redis', 'redis'],
    ['Valkey', 'valkey'],
    ['PostgreSQL', 'postgres'],
  ] as const) {
    it(`${software}: the tested version is that of the server that the tests start`, () => {
      const { stdout } = spawnSync(findProgram(program), ['--version'], { encoding: 'utf8' });
      const [, version = ''] = /(?:v=|PostgreSQL\) )(\d+\.\d+)/.exec(stdout)!;
      const [tested = ''] = versionsOf(rows.get(software)!.tested);
      expect(version.startsWith(`${tested}`), `${version}, not ${tested}: correct docs/versions.md`).to.equal(
        true,
      );
    });
  }
});
