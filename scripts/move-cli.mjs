// @ts-nocheck A script that runs once.
/* eslint-disable */
// Moves the command line into packages/cli, once, and then removes itself: node scripts/move-cli.mjs
// It stops before any change if a file imports an internal part of headgate that no entry point exports; --force moves nevertheless.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync, mkdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';
import { listFiles, root } from './lib/run.mjs';

const FOLDERS = [
  ['src/cli', 'packages/cli/src'],
  ['test/cli', 'packages/cli/test'],
  ['test/slow/cli', 'packages/cli/test/slow'],
  ['test/sqlite/cli.test.ts', 'packages/cli/test/sqlite.test.ts'],
];
const moved = (file) => {
  const found = FOLDERS.find(([from]) => file === from || file.startsWith(`${from}/`));
  return found ? found[1] + file.slice(found[0].length) : file;
};
const read = (file) => readFileSync(join(root, file), 'utf8');
const write = (file, text) => writeFileSync(join(root, file), text);
const run = (command, ...args) => execFileSync(command, args, { cwd: root, stdio: 'inherit' });
const manifest = JSON.parse(read('package.json'));

// The entry points of headgate, and the name by which each exports a symbol.
const doors = Object.entries(manifest.exports).flatMap(([path, target]) =>
  typeof target === 'string'
    ? []
    : [[`headgate${path.slice(1)}`, target.require.replace('./dist/cjs', 'src').replace('.js', '.ts')]],
);
const sources = listFiles('src/cli').filter((file) => file.endsWith('.ts') && existsSync(join(root, file)));
const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
const program = ts.createProgram(
  [...doors.map(([, file]) => file), ...sources].map((file) => join(root, file)),
  options,
);
const checker = program.getTypeChecker();
const resolved = (symbol) =>
  symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
/** @type {Map<ts.Symbol, { door: string, name: string }>} */
const exported = new Map();
for (const [door, file] of doors) {
  const module = checker.getSymbolAtLocation(program.getSourceFile(join(root, file)));
  for (const symbol of checker.getExportsOfModule(module)) {
    const target = resolved(symbol);
    if (symbol.name !== 'default' && !exported.has(target)) exported.set(target, { door, name: symbol.name });
  }
}

const left = [];
/** @type {Map<string, string>} */
const texts = new Map();
for (const file of [...sources, ...listFiles('src', 'test', 'scripts', 'examples', 'packages')]) {
  if (texts.has(file) || !/\.(ts|mts|cts|js|mjs|cjs)$/.test(file) || !existsSync(join(root, file))) continue;
  const text = read(file);
  const rewritten = rewrite(file, text);
  if (rewritten !== text || moved(file) !== file) texts.set(file, rewritten);
}
if (left.length > 0) {
  console.log(`Imports that no entry point exports:\n${left.join('\n')}`);
  if (!process.argv.includes('--force')) process.exit(1);
}

/** The text of a file after the move. */
function rewrite(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const edits = [];
  const own = sources.includes(file) ? program.getSourceFile(join(root, file)) : undefined;
  const visit = (node) => {
    if (ts.isStringLiteralLike(node) && node.text.startsWith('.') && isSpecifier(node)) {
      const target = relative(root, resolve(root, dirname(file), node.text));
      const isInternal = own && target.startsWith('src/') && !target.startsWith('src/cli/');
      const declaration = isInternal && own.statements.find((each) => each.moduleSpecifier?.pos === node.pos);
      if (declaration)
        edits.push([node.parent.getStart(), node.parent.end, publicImports(file, declaration)]);
      else {
        let path = relative(
          dirname(moved(file)),
          moved(target.replace(/\.js$/, '.ts')).replace(/\.ts$/, '.js'),
        );
        if (!path.startsWith('.')) path = `./${path}`;
        if (path !== node.text && moved(file) + moved(target) !== file + target)
          edits.push([node.getStart() + 1, node.end - 1, path]);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  for (const [start, end, replacement] of edits.toReversed())
    text = text.slice(0, start) + replacement + text.slice(end);
  return mergeImports(
    text.replaceAll(/\b(src\/cli|test\/slow\/cli|test\/cli)(?=\/)/g, (name) => moved(name)),
  );
}

function isSpecifier({ parent }) {
  return (
    ts.isImportDeclaration(parent) ||
    ts.isExportDeclaration(parent) ||
    (ts.isLiteralTypeNode(parent) && ts.isImportTypeNode(parent.parent)) ||
    (ts.isCallExpression(parent) && parent.expression.kind === ts.SyntaxKind.ImportKeyword)
  );
}

/** The imports by entry points that replace one by a path. */
function publicImports(file, declaration) {
  const clause = declaration.importClause ?? declaration.exportClause;
  const elements = clause?.namedBindings?.elements ?? clause?.elements ?? [];
  const byDoor = new Map();
  for (const element of elements) {
    const symbol = checker.getSymbolAtLocation(element.propertyName ?? element.name);
    const found = symbol && exported.get(resolved(symbol));
    const isType = declaration.importClause?.isTypeOnly || element.isTypeOnly;
    let door = found?.door;
    if (!door) {
      const target = resolve(root, dirname(file), declaration.moduleSpecifier.text);
      door = relative(resolve(root, dirname(moved(file))), target);
      left.push(`${file}: ${(element.propertyName ?? element.name).text} of ${relative(root, target)}`);
    }
    const name = element.name.text;
    const from = found?.name ?? element.propertyName?.text ?? name;
    const text = `${isType ? 'type ' : ''}${from === name ? name : `${from} as ${name}`}`;
    byDoor.set(door, [...(byDoor.get(door) ?? []), text]);
  }
  const keyword = declaration.importClause ? 'import' : 'export';
  return [...byDoor].map(([door, names]) => `${keyword} { ${names.join(', ')} } from '${door}';`).join('\n');
}

/** Joins the imports of one entry point. */
function mergeImports(text) {
  const pattern = /^import (type )?\{ ([^}]*?),? \} from '(headgate[^']*)';\n/gm;
  const names = new Map();
  for (const [, isType, list, door] of text.matchAll(pattern))
    for (const name of list.split(/,\s*/))
      names.set(door, (names.get(door) ?? new Set()).add(isType ? `type ${name}` : name));
  const done = new Set();
  return text.replaceAll(pattern, (_all, _type, _list, door) => {
    if (done.has(door)) return '';
    done.add(door);
    const all = [...names.get(door)].filter(
      (name) => !names.get(door).has(name.replace('type ', '')) || !name.startsWith('type '),
    );
    const areTypes = all.every((name) => name.startsWith('type '));
    const shown = (areTypes ? all.map((name) => name.slice('type '.length)) : all).join(', ');
    return `import ${areTypes ? 'type ' : ''}{ ${shown} } from '${door}';\n`;
  });
}

for (const [from, to] of FOLDERS) {
  if (!existsSync(join(root, from))) continue;
  mkdirSync(dirname(join(root, to)), { recursive: true });
  run('git', 'mv', '-k', from, to);
}
for (const [file, text] of texts) write(moved(file), text);

/** Replaces texts in a file. A text that is missing is reported. */
function edit(file, ...pairs) {
  if (!existsSync(join(root, file))) return console.log(`MISSING FILE ${file}`);
  let text = read(file);
  for (const [before, after] of pairs) {
    const found = typeof before === 'string' ? text.includes(before) : before.test(text);
    if (!found) console.log(`BY HAND ${file}: ${String(before).slice(0, 90)}`);
    text = text.replace(before, () => after);
  }
  write(file, text);
}

// The package.
const dependencies = {};
for (const name of ['cli-progress', 'commander', 'ipaddr.js', 'picocolors', 'string-width', 'uplot'])
  dependencies[name] = manifest.dependencies[name] ?? manifest.devDependencies[name];
const cli = {
  name: 'headgate-cli',
  version: manifest.version,
  description:
    'Command line of Headgate, the rate limiter for Node.js: list, ban, reset and override keys in Redis, Valkey or SQLite; find limits from access logs',
  keywords: ['rate-limit', 'rate-limiter', 'headgate', 'cli', 'redis', 'access-log', 'operations'],
  license: 'MIT',
  author: 'Headgate contributors',
  type: 'module',
  publishConfig: manifest.publishConfig,
  engines: manifest.engines,
  files: ['dist'],
  bin: { 'headgate-cli': './dist/headgate.js', headgate: './dist/headgate.js' },
  exports: { './package.json': './package.json' },
  scripts: {
    prepack: 'npm run build --prefix ../..',
    prepublishOnly: 'node ../../scripts/version.mjs check',
  },
  dependencies: { ...dependencies, headgate: manifest.version },
};
write('packages/cli/package.json', JSON.stringify(cli, null, 2));
cpSync(join(root, 'LICENSE'), join(root, 'packages/cli/LICENSE'));
write(
  'packages/cli/README.md',
  `# The command line of Headgate

Shows and changes the state that limiters of [Headgate](https://www.npmjs.com/package/headgate), the rate limiter for Node.js, keep in Redis, Valkey or a file of
SQLite. Finds limits from access logs.

\`\`\`sh
npx headgate-cli list                                              # the keys that are limited or banned now
npx headgate-cli peek 203.0.113.7 --name api                       # why is this key denied, and for how long?
npx headgate-cli override customer:42 1000/1m --name api --for 1d  # other limits for a while
npx headgate-cli suggest --keep 99.9 access.log                    # limits that nearly none of your clients would have noticed
\`\`\`

Run it where your service is installed, with the server's URL in \`REDIS_URL\`: it uses the Redis client of your service. Elsewhere, let npx install one:
\`npx -p headgate-cli -p ioredis headgate list\`. An installed package has the command under both names, \`headgate-cli\` and \`headgate\`.

Its version is that of Headgate. Use the version that your services use.

\`npx headgate-cli --help\` lists all commands. Headgate's documentation explains them on the page "The command line".
`,
);

// The root.
edit(
  'package.json',
  [/ {2}"bin": \{[^}]*\},\n/, ''],
  ['src/cli/replay/page', 'packages/cli/src/replay/page'],
);
const rest = JSON.parse(read('package.json'));
for (const name of ['commander', 'picocolors', 'string-width', 'uplot']) delete rest.devDependencies[name];
write('package.json', JSON.stringify(rest, null, 2));
edit('tsconfig.json', ['src/cli/replay/page', 'packages/cli/src/replay/page']);
edit('tsconfig.build.json', [',\n  "exclude": ["src/cli"]', '']);
if (existsSync(join(root, 'packages/cli/src/replay/page/tsconfig.json')))
  edit('packages/cli/src/replay/page/tsconfig.json', [
    '../../../../tsconfig.json',
    '../../../../../tsconfig.json',
  ]);
const knip = JSON.parse(read('knip.json'));
knip.workspaces['.'].entry = knip.workspaces['.'].entry.filter((entry) => !entry.startsWith('src/cli/'));
knip.workspaces['.'].project = knip.workspaces['.'].project.filter((each) => each !== '!src/cli/**!');
knip.workspaces['packages/cli'] = {
  entry: ['src/main.ts!', 'src/replay/page/page.js', 'test/**/*.test.ts'],
  project: ['src/**/*.ts!', 'test/**/*.ts'],
};
write('knip.json', JSON.stringify(knip, null, 2));
edit(
  '.dependency-cruiser.js',
  ["  '^src/cli/',\n", ''],
  [
    "/** The command line: a program of its own, bundled with what it uses. */\nconst cli = '^src/cli/';\n",
    '',
  ],
  [
    'from: { path: floor, ...(i === floors.length - 2 ? {} : { pathNot: doors }) }',
    'from: { path: floor, pathNot: doors }',
  ],
  [
    "comment: 'Nothing in src/ but the command line comes in by a door.'",
    "comment: 'Nothing in src/ comes in by a door.'",
  ],
  [
    "from: { path: '^src/', pathNot: cli },\n      to: { path: doors }",
    "from: { path: '^src/' },\n      to: { path: doors }",
  ],
  ["redis, '^src/redis\\\\.ts$', cli]", "redis, '^src/redis\\\\.ts$']"],
  [", '^src/cli/'] }", '] }'],
  [
    /'What the package imports at run time, its users get: a dependency or a peer\.[^,]*?uses\.'/s,
    "'What a package imports at run time, its users get: a dependency or a peer.'",
  ],
  [
    "from: { path: '^(src|packages/[^/]+/src)/', pathNot: cli }",
    "from: { path: '^(src|packages/[^/]+/src)/' }",
  ],
);
edit('test/slow/house.test.ts', [
  '/** The folders that may name an algorithm: its own, and the command line, which shows names to people. */\n  const mayName = /^src\\/(algorithms|cli)\\//;',
  '/** The folder that may name an algorithm. */\n  const mayName = /^src\\/algorithms\\//;',
]);
let judge = read('scripts/mutants/judge.ts').replaceAll(/'(?:slow\/)?cli\//g, (found) =>
  found === "'cli/" ? "'packages/cli/test/" : "'packages/cli/test/slow/",
);
judge = judge.replace(
  'test === `test/${name}.test.ts` ||',
  '[`${name}.test.ts`, `test/${name}.test.ts`].includes(test) ||',
);
write('scripts/mutants/judge.ts', judge);

// The build.
rmSync(join(root, 'scripts/lib/command-line.ts'));
edit(
  'scripts/lib/library.ts',
  ["import { TARGET, writeCommandLine } from './command-line.js';\n", ''],
  [' The command line is an ES module that imports the same copy.', ' The command line is an ES module.'],
  [
    "/** The entry of the command line. No sub-path has this name. */\nconst COMMAND_LINE = 'command-line';\n\n",
    "/** The syntax that all supported versions of Node run. */\nconst TARGET = 'node20';\n\n",
  ],
  [
    'Builds `cjs` and `esm`, each with a file per sub-path, the declarations of both, and `cli`. Resolves',
    'Builds `cjs` and `esm`, each with a file per sub-path, and the declarations of both. Resolves',
  ],
  ['Bundles the entry files and the command line. Code', 'Bundles the entry files. Code'],
  [
    / {4}input: \{\n {6}\.\.\.(Object\.fromEntries\(.*?\)\)?),\n {6}\.\.\.\(folder === '\.'.*?\n {4}\},/s,
    '    input: INPUT,',
  ],
  [
    / {2}if \(folder !== '\.'\) return bundled\.close\(\);\n.*?await writeCommandLine\(program\.code, directory\);\n/s,
    '  await bundled.close();\n',
  ],
  [/ {2}\/\/ The chunks are the same in both formats.*?\n {2}const chunks = .*?;\n/s, ''],
  ['    ...chunks,\n', "    chunkFileNames: 'shared/[name].js',\n    minifyInternalExports: false,\n"],
  ['    plugins: [libraryOnly],\n', ''],
  [/const libraryOnly: OutputPlugin = \{.*?\n\};\n\n/s, ''],
  ['rollup, type OutputPlugin, type Plugin', 'rollup, type Plugin'],
  [
    '/** The entry file of each sub-path,',
    `/** Builds the program of \`headgate-cli\`, one ES module, and the page of its reports. */
export async function buildProgram(directory: string): Promise<void> {
  const source = join(root, 'packages/cli/src');
  const bundled = await rollup({ ...BUNDLE, input: { headgate: join(source, 'main.ts') } });
  await bundled.write({ dir: directory, format: 'es' });
  await bundled.close();
  chmodSync(join(directory, 'headgate.js'), 0o755);
  for (const file of ['page.js', 'page.css'])
    cpSync(join(source, 'replay/page', file), join(directory, 'page', file));
}

/** The entry file of each sub-path,`,
  ],
  ['import { mkdirSync,', 'import { chmodSync, cpSync, mkdirSync,'],
);
let library = read('scripts/lib/library.ts');
library = library.replace(
  /rollup\(\{\n {4}input: INPUT,\n( {4}external: .*?\n)( {4}treeshake: .*?\n) {4}plugins: \[readable\],\n {2}\}\)/s,
  'rollup({\n    ...BUNDLE,\n    input: Object.fromEntries(doors.map((door) => [door, join(root, folder, `src/${door}.ts`)])),\n  })',
);
library = library.replace(
  /(\/\*\* The code of a file without types and comments)/,
  () => `/** The settings of every bundle: packages are imported, not copied. */
const BUNDLE = {
  external: (id: string) => !id.startsWith('.') && !id.startsWith(root),
  treeshake: { moduleSideEffects: false },
  plugins: [readable],
};

/** The code of a file without types and comments`,
);
write('scripts/lib/library.ts', library);
edit(
  'scripts/build.ts',
  [
    "import { buildPackage, PACKAGES } from './lib/library.js';",
    "import { buildPackage, buildProgram, PACKAGES } from './lib/library.js';",
  ],
  [
    /for \(const folder of PACKAGES\) \{\n.*\n\}\n$/s,
    `for (const folder of PACKAGES)
  await replace(folder, async (fresh) => {
    const typesAreRight = await buildPackage(fresh, folder);
    if (!typesAreRight) throw new Error(\`The build of \${folder} has type errors.\`);
  });
await replace('packages/cli', buildProgram);

async function replace(folder: string, build: (fresh: string) => Promise<void>): Promise<void> {
  const dist = join(root, folder, 'dist');
  const fresh = join(root, folder, \`dist.\${process.pid}\`);
  try {
    await build(fresh);
    rmSync(dist, { recursive: true, force: true });
    renameSync(fresh, dist);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}
`,
  ],
);

// The program's version and its messages.
edit(
  'packages/cli/src/program.ts',
  [/import \{ VERSION \} from '[^']*';\n/, ''],
  [
    '/** The commands in the order of the help. */',
    `const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

/** The commands in the order of the help. */`,
  ],
  ['.version(VERSION,', '.version(version,'],
  ['import { CommanderError,', "import { createRequire } from 'node:module';\nimport { CommanderError,"],
);
const isText = (file) => /\.(md|ts|mjs|js|lua|yml|json)$/.test(file) && file !== 'package-lock.json';
for (const file of listFiles().filter((file) => isText(file) && existsSync(join(root, file)))) {
  if (/^CHANGELOG|^scripts\/move-cli|^packages\/cli\/README/.test(file)) continue;
  const text = read(file);
  const named = text
    .replaceAll('npx -p headgate -p', 'npx -p headgate-cli -p')
    .replaceAll(/npx headgate(?![-\w])/g, 'npx headgate-cli');
  if (named !== text) write(file, named);
}

// The tests of the tarballs.
edit(
  'test/slow/package.test.ts',
  [
    / {6}'dist\/cli\/headgate\.js',\n {6}'dist\/cli\/THIRD-PARTY-LICENSES\.txt',\n.*?page\/\$\{file\}`\),\n/s,
    '',
  ],
  [
    /expect\(other\)\.to\.have\.members\(\[\s*'dist\/cjs\/package\.json',\s*\]\)/,
    "expect(other).to.deep.equal(['dist/cjs/package.json'])",
  ],
  [
    / {2}it\('runs from the command line, with the Redis client.*?(?= {2}it\('a stand-in for another limiter)/s,
    `  it('headgate has no program, and none of the libraries of the command line', () => {
    expect(manifest).to.not.have.property('bin');
    expect(existsSync(join(bare, 'node_modules/.bin/headgate'))).to.equal(false);
    for (const name of ['commander', 'uplot'])
      expect(existsSync(join(bare, 'node_modules', name)), name).to.equal(false);
  });

  it('headgate-cli holds its program and the page of its reports', () => {
    const { files } = packed.find(({ name }) => name === 'headgate-cli')!;
    expect(files.filter((file) => file.startsWith('dist/'))).to.have.members([
      'dist/headgate.js',
      ...['dist/page/page.css', 'dist/page/page.js'],
    ]);
  });

  it('headgate-cli runs by npx, by both of its names, with the Redis client of the project where it runs', async () => {
    for (const name of ['headgate-cli', 'headgate']) {
      const { stdout } = await execute('npx', ['--no-install', name, '--version'], { cwd: all });
      expect(stdout).to.equal(\`\${manifest.version}\\n\`);
    }

    // The program that npx starts. npx itself takes longer.
    const headgate = (cwd: string, ...args: string[]) =>
      execute(join(cwd, 'node_modules/.bin/headgate-cli'), args, { cwd });
    expect((await headgate(all, '--help')).stdout).to.match(/^Usage: headgate .*peek.*unban/s);
    const log = '203.0.113.7 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"\\n';
    writeFileSync(join(all, 'access.log'), log);
    await headgate(all, 'replay', 'access.log', '--policy', '1/1m', '--report', 'report.html');
    expect(readFileSync(join(all, 'report.html'), 'utf8')).to.contain('uPlot');

    const ban = ['ban', 'someone', '1h', '--name', 'api', '--redis', servers.redis.url, '--json', '--force'];
    const without = (await headgate(all, ...ban).catch((error: unknown) => error)) as {
      code: number;
      stderr: string;
    };
    expect(without.code).to.equal(1);
    expect(without.stderr).to.contain('npx -p headgate-cli -p ioredis');

    const service = join(directory, 'service');
    cpSync(join(all, 'node_modules'), join(service, 'node_modules'), { recursive: true });
    symlinkSync(installed('ioredis'), join(service, 'node_modules/ioredis'));
    expect(JSON.parse((await headgate(service, ...ban)).stdout)).to.include({ name: 'api', key: 'someone' });
  });

`,
  ],
);

// The docs.
edit(
  'CONTRIBUTING.md',
  [/\| `src\/cli` +\| the command line +\|\n/, ''],
  [
    /\| `packages\/testing` /,
    '| `packages/cli` | `headgate-cli`: the command line, with replay and suggest |\n| `packages/testing` ',
  ],
);
edit('docs/architecture.md', [
  '`cli/commands/<name>.ts`, and a line in `cli/program.ts`',
  '`packages/cli/src/commands/<name>.ts`, and a line in `packages/cli/src/program.ts`',
]);
for (const file of [
  'docs/architecture.md',
  'docs/testing.md',
  'docs/extending.md',
  'CONTRIBUTING.md',
  'test/slow/docs.test.ts',
  'test/slow/resources.test.ts',
])
  if (existsSync(join(root, file)))
    write(
      file,
      read(file)
        .replaceAll('`test/cli', '`packages/cli/test')
        .replaceAll('`test/slow/cli', '`packages/cli/test/slow'),
    );
edit(
  'SECURITY.md',
  [
    /- The command line is one file beside the library.*?control characters in keys\.\n/s,
    `- The command line is a package of its own, \`headgate-cli\`, with its own dependencies, so an application does not install them. It never prints passwords, and
  escapes control characters in keys.
`,
  ],
  [
    'but the library keeps its names, so you can run `npm pack` and read the code; only the command line is minified. A test fails if the',
    'but keeps its names, so you can run `npm pack` and read the code. A test fails if the',
  ],
);
const changes = read('CHANGELOG.md');
const fixed = changes.indexOf('\n### Fixed\n', changes.indexOf('## [Unreleased]'));
write(
  'CHANGELOG.md',
  `${changes.slice(0, fixed).trimEnd()}
- The command line is a package of its own, \`headgate-cli\`, of the same version: \`npx headgate-cli list\`. \`headgate\` has no \`bin\` any more. An installed
  \`headgate-cli\` has the commands \`headgate-cli\` and \`headgate\`.
${changes.slice(fixed)}`,
);

run('git', 'rm', '--quiet', '--force', 'scripts/move-cli.mjs');
run(
  'npx',
  'prettier',
  '--log-level',
  'warn',
  '--write',
  'packages',
  'src',
  'test',
  'scripts',
  'package.json',
  'knip.json',
  'tsconfig.json',
  'tsconfig.build.json',
  '.dependency-cruiser.js',
  '*.md',
  'docs',
);
const link = join(root, 'node_modules/headgate-cli');
if (!existsSync(link)) symlinkSync('../packages/cli', link);
run(
  'npm',
  'install',
  '--package-lock-only',
  '--no-audit',
  '--no-fund',
  '--prefer-offline',
  '--loglevel=error',
);
run('git', 'add', '--all');
console.log(
  'Moved. Now: npx tsc --noEmit; npm run build; npm run imports; npm run unused; eslint; mocha packages/cli/test; git grep "src/cli"',
);
