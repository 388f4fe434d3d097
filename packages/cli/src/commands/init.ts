import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Argument } from 'commander';
import type { CliCommand } from '../command.js';
import { orUsage, usageError } from '../errors.js';
import { FRAMEWORKS, type Framework } from '../init/frameworks.js';
import { differenceOf, inserted, insertionsOf } from '../init/insertion.js';
import { readText, writeAnswer, type Io } from '../io.js';
import { parsePolicies } from '../policy-text.js';

interface InitOptions {
  readonly policy: string;
  readonly write?: boolean;
}

/** The names that the file of an application usually has. */
const FILES = ['', 'src/'].flatMap((folder) =>
  ['app', 'server', 'index', 'main'].flatMap((name) =>
    ['ts', 'mts', 'mjs', 'js', 'cjs'].map((ending) => `${folder}${name}.${ending}`),
  ),
);

/** @throws CliError `USAGE` */
function fileOf(framework: Framework, { cwd }: Io): string {
  const makesApplication = (file: string): boolean =>
    existsSync(resolve(cwd, file)) && framework.creation.test(readFileSync(resolve(cwd, file), 'utf8'));
  const file = FILES.find(makesApplication);
  if (file === undefined)
    throw usageError(
      `no file here makes an application of ${framework.title}. Pass the file: headgate init ${framework.title.toLowerCase()} src/http.ts`,
    );
  return file;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('init')
    .summary('add a rate limit to an application')
    .description(
      'Shows the lines that limit an application of Express or Fastify, as a difference. Changes nothing without --write. Connects to nothing.',
    )
    .addArgument(new Argument('<framework>', 'the framework').choices(Object.keys(FRAMEWORKS)))
    .argument(
      '[file]',
      'the file that makes the application; default: app, server, index or main, here or in src',
    )
    .option('--policy <policy>', 'the limit, as text', '100/1m')
    .option('--write', 'change the file')
    .answers('a document: file, difference, written')
    .example('init express')
    .example('init fastify src/http.ts --policy 300/1m --write')
    .action(async (name: string, given: string | undefined, { policy, write = false }: InitOptions) => {
      parsePolicies([policy]);
      const framework = FRAMEWORKS[name]!;
      const file = given ?? fileOf(framework, io);
      const text = readText('init', file, io);
      if (/['"]headgate(\/\w+)?['"]/.test(text)) throw usageError(`${file}: it already imports Headgate.`);
      const insertions = insertionsOf(file, text, framework, policy);
      const difference = differenceOf(file, text, insertions);
      if (write) orUsage(() => writeFileSync(resolve(io.cwd, file), inserted(text, insertions)));
      const next = write
        ? `# ${file} is changed. Now run: npm install headgate`
        : '# Nothing is changed. Add --write to do it.';
      await writeAnswer(io, { file, difference, written: write }, () => `${difference}${next}\n`);
    });
}
