// `headgate init`: git applies the difference, the file that it writes limits, and nothing is written without being asked.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { root } from '../../../scripts/lib/run.mjs';
import { headgate } from './cli.js';

const EXPRESS = `import express from 'express';
import { createServer } from 'node:http';

const app = express();

app.get('/', (_req, res) => void res.send('hello'));

const server = createServer(app).listen(0, async () => {
  const url = \`http://127.0.0.1:\${server.address().port}\`;
  const statuses = [];
  for (let i = 0; i < 4; i++) statuses.push((await fetch(url)).status);
  console.log(statuses.join());
  process.exit();
});
`;

const FASTIFY = `'use strict'
const Fastify = require('fastify')

async function main() {
  const fastify = Fastify({ logger: false })

  fastify.get('/', () => 'hello')
  const statuses = []
  for (let i = 0; i < 4; i++) statuses.push((await fastify.inject('/')).statusCode)
  console.log(statuses.join())
  process.exit()
}
main()
`;

describe('init', function () {
  this.timeout(60_000);
  let directory: string;

  beforeEach(() => (directory = mkdtempSync(join(tmpdir(), 'headgate-init-'))));
  afterEach(() => rmSync(directory, { recursive: true }));

  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(directory, file)), { recursive: true });
    writeFileSync(join(directory, file), text);
  };
  const init = (...args: string[]) => headgate(['init', ...args], { cwd: directory });
  const textOf = (file: string): string => readFileSync(join(directory, file), 'utf8');

  const programs = [
    ['express', 'src/app.mjs', EXPRESS],
    ['fastify', 'server.cjs', FASTIFY],
  ] as const;
  for (const [framework, file, text] of programs)
    it(`${framework}: shows a difference that git applies, and that limits the application`, async () => {
      write(file, text);
      const shown = await init(framework, '--policy', '2/1m');
      expect(shown).to.include({ code: 0, stderr: '' });
      expect(textOf(file)).to.equal(text);
      const git = spawnSync('git', ['apply', '-'], { cwd: directory, input: shown.stdout, encoding: 'utf8' });
      expect(git.status, git.stderr).to.equal(0);
      const applied = textOf(file);
      write(file, text);
      expect((await init(framework, file, '--policy', '2/1m', '--write')).stdout).to.include(
        'npm install headgate',
      );
      expect(textOf(file)).to.equal(applied);
      // The packages of the repository, beside the program.
      const copy = join(root, 'packages/cli/test', `init-${framework}.${file.split('.').at(-1)!}`);
      writeFileSync(copy, applied);
      try {
        const run = spawnSync(process.execPath, ['--import', 'tsx', copy], { cwd: root, encoding: 'utf8' });
        expect(run.stdout.trim(), run.stderr).to.equal('200,200,429,429');
      } finally {
        rmSync(copy);
      }
    });

  it('an application in a function, without semicolons, keeps its style', async () => {
    write(
      'app.ts',
      `import express from 'express'\n\nexport function build() {\n  const api = express()\n  return api\n}\n`,
    );
    const { stdout } = await init('express');
    expect(stdout).to.include(`+import { rateLimit } from 'headgate/express'\n`);
    expect(stdout).to.include(
      `+  api.use(\n+    rateLimit({\n+      policies: ['100/1m'],\n+    }),\n+  )\n   return api`,
    );
  });

  it('puts the line behind what must be first, and leaves comments alone', async () => {
    const node = '#!/usr/bin/env node';
    const required = "const { rateLimit } = require('headgate/express');";
    const app = 'const app = express();';
    const cases = [
      [
        [node, "'use strict';", "const express = require('express'),", "  path = require('path');", '', app],
        [5, required],
      ],
      [
        [node, '"use strict";', 'const { app: express } = load();', app],
        [2, required],
      ],
      [
        ["import express = require('express');", '/*', app, '*/', app],
        [1, "import { rateLimit } from 'headgate/express';"],
      ],
    ] as const;
    for (const [lines, [at, line]] of cases) {
      write('app.js', `${lines.join('\n')}\n`);
      const { code } = await init('express', 'app.js', '--write');
      expect(code).to.equal(0);
      const written = textOf('app.js').split('\n');
      expect(written[at]).to.equal(line);
      expect(written.filter((each) => each === line)).to.have.length(1);
      expect(written.indexOf('app.use(')).to.be.above(written.lastIndexOf(app));
    }
  });

  it('refuses an application that it does not find, that has a limiter, or whose plugin could not be awaited', async () => {
    const messages = {
      'no file here makes an application of Express': ['express'],
      'none.ts: no line makes': ['express', 'none.ts'],
      'it already imports Headgate': ['express', 'has.ts'],
      "which needs 'await'": ['fastify', 'top.cjs'],
      'Allowed choices are express, fastify': ['koa'],
      'cannot be read': ['express', 'missing.ts'],
      '--policy': ['express', 'has.ts', '--policy', '10'],
    };
    write('none.ts', 'export {};\n');
    write(
      'has.ts',
      `import express from 'express';\nimport {} from 'headgate/express';\nconst app = express();\n`,
    );
    write('top.cjs', `const fastify = require('fastify')()\nconst app = fastify();\n`);
    for (const [message, args] of Object.entries(messages)) {
      const { code, stderr } = await init(...args);
      expect(code, message).to.equal(2);
      expect(stderr).to.include(message);
    }
  });

  it('as JSON', async () => {
    write('app.mjs', EXPRESS);
    const { stdout } = await init('express', '--json');
    expect(JSON.parse(stdout)).to.include({ file: 'app.mjs', written: false });
  });
});
