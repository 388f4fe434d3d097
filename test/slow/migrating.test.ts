// The programs of docs/migrating and examples/legacy run, and each program after the move behaves like the program before it.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { expect } from 'chai';
import { compilePrograms, programDirectory } from '../support/programs.js';

const root = new URL('../../', import.meta.url).pathname;
const pages = readdirSync(`${root}docs/migrating`)
  .map((name) => readFileSync(`${root}docs/migrating/${name}`, 'utf8'))
  .join('\n');

const legacy = (file: string): string => readFileSync(`${root}examples/legacy/${file}`, 'utf8');

/** The program before the move, in `examples/legacy`, and that after, of the section that begins with such a heading. */
function programs(file: string, heading: string): { before: string; after: string } {
  const [, section] = pages.split(`# ${heading}\n`);
  expect(section, heading).to.contain(`[before](../../examples/legacy/${file})`);
  const [, after] = /^```[jt]s\n(.*?)^```$/ms.exec(section!)!;
  return { before: legacy(file), after: after! };
}

/** The programs before and after a move that are both in `examples/legacy`. */
function legacyPrograms(name: string, extension = 'ts'): { before: string; after: string } {
  return { before: legacy(`${name}.${extension}`), after: legacy(`${name}-moved.${extension}`) };
}

/** A program with other texts in place of those that it must contain. */
function changed(code: string, texts: readonly [was: string, is: string][]): string {
  return texts.reduce((result, [was, is]) => {
    expect(result).to.contain(was);
    return result.replace(was, () => is);
  }, code);
}

const running: ChildProcess[] = [];

const directory = programDirectory();
let made = 0;

/** Starts a program. */
async function start(code: string): Promise<{ child: ChildProcess; output: () => string }> {
  const outfile = `${directory}/${made++}.mjs`;
  // With decorators as NestJS has them.
  const tsconfig = `${root}examples/legacy/tsconfig.json`;
  await compilePrograms({ stdin: { contents: code, resolveDir: root, loader: 'ts' }, outfile, tsconfig });
  const child = spawn(process.execPath, [outfile], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  running.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  return { child, output: () => output };
}

/** The output of a program until it ends. */
async function printed(code: string): Promise<string[]> {
  const { child, output } = await start(code);
  await once(child, 'close');
  expect(child.exitCode, output()).to.equal(0);
  return output().trim().split('\n');
}

/** Starts a server of port 3000 on a free one instead, and waits until it listens. */
async function serve(code: string): Promise<{ url: string; output: () => string }> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  expect(code).to.contain('listen(3000)');
  const { child, output } = await start(code.replace('listen(3000)', `listen(${port}, '127.0.0.1')`));
  const url = `http://127.0.0.1:${port}`;
  // A path of no program. The request may be counted nevertheless, so the test uses no quota that all requests share.
  while (!(await fetch(`${url}/is-it-there`).catch(() => undefined))) {
    if (child.exitCode !== null) throw new Error(output());
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { url, output };
}

async function statuses(count: number, url: string): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < count; i++) found.push((await fetch(url)).status);
  return found;
}

describe('docs/migrating', function () {
  // Each program is a process.
  this.timeout(60_000);
  afterEach(async () => {
    for (const child of running.splice(0)) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill();
      await once(child, 'close');
    }
  });

  it('express-rate-limit 5: max 0, onLimitReached and the draft’s headers', async () => {
    const { before, after } = legacyPrograms('express-rate-limit-5', 'mjs');
    for (const code of [before.replace("'express-rate-limit'", "'express-rate-limit5'"), after]) {
      const { url, output } = await serve(code);
      expect(await statuses(4, `${url}/health`)).to.deep.equal([200, 200, 200, 200]);
      const { headers } = await fetch(`${url}/search`);
      expect([headers.get('RateLimit-Limit'), headers.get('RateLimit-Remaining')]).to.deep.equal(['2', '1']);
      expect(await statuses(3, `${url}/search`)).to.deep.equal([200, 429, 429]);
      expect(output().trim()).to.equal('/search is at its limit');
    }
  });

  it('express-slow-down: what comes too fast is delayed, not denied', async () => {
    const { before, after } = programs('express-slow-down.ts', 'From express-slow-down');
    for (const code of [before, after]) {
      const { url } = await serve(code);
      // The question whether the server is there may have been the first of the two at once.
      await new Promise((resolve) => setTimeout(resolve, 500));
      const begun = performance.now();
      const answers = await Promise.all(
        Array.from({ length: 5 }, async () => {
          const { status } = await fetch(url);
          return { status, after: performance.now() - begun };
        }),
      );
      expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 200, 200, 200]);
      expect(Math.max(...answers.map((answer) => answer.after))).to.be.greaterThan(500);
    }
  });

  it('@nestjs/throttler: the module’s limit, a handler’s own, and none', async () => {
    const { before, after } = legacyPrograms('throttler');
    for (const code of [before, after]) {
      const { url } = await serve(code);
      const { headers } = await fetch(`${url}/list`);
      const fields = ['limit', 'remaining', 'reset'].map((name) => headers.get(`x-ratelimit-${name}`));
      // The question whether the server is there was not of a handler.
      expect(fields).to.deep.equal(['4', '3', '60']);
      expect(await statuses(3, `${url}/login`)).to.deep.equal([200, 200, 429]);
      expect(await statuses(4, `${url}/list`)).to.deep.equal([200, 200, 200, 429]);
      expect(await statuses(6, `${url}/health`)).to.deep.equal([200, 200, 200, 200, 200, 200]);
    }
  });

  it('@nestjs/throttler: one of several named limits is skipped or replaced, and each handler has a quota', async () => {
    const { before, after } = legacyPrograms('throttler-named');
    for (const code of [before, after]) {
      const { url } = await serve(code);
      expect(await statuses(3, `${url}/list`)).to.deep.equal([200, 200, 429]);
      expect(await statuses(2, `${url}/login`)).to.deep.equal([200, 429]);
      expect(await statuses(5, `${url}/news`)).to.deep.equal([200, 200, 200, 200, 429]);
    }
  });

  for (const [name, fields] of [
    ['koa-ratelimit', ['x-ratelimit-limit', 'x-ratelimit-remaining']],
    ['hono-rate-limiter', ['ratelimit-limit', 'ratelimit-remaining']],
  ] as const)
    it(`${name}: the quota, the key, the fields and the exceptions stay`, async () => {
      const { before, after } = programs(`${name}.mjs`, `From ${name}`);
      for (const code of [before, after]) {
        const { url } = await serve(
          code
            .replace('port });', "port, hostname: '127.0.0.1' });")
            .replace('(port) =>', '(port, _host) =>'),
        );
        const ask = (path: string, account: string) =>
          fetch(`${url}/${path}`, { headers: { 'x-account': account } });
        const { headers } = await ask('', 'ada');
        expect(fields.map((field) => headers.get(field))).to.deep.equal(['3', '2']);
        expect([(await ask('', 'ada')).status, (await ask('', 'ada')).status]).to.deep.equal([200, 200]);
        const denied = await ask('', 'ada');
        expect(denied.status).to.equal(429);
        expect(Number(denied.headers.get('retry-after'))).to.be.within(50, 60);
        if (name === 'koa-ratelimit') expect(await denied.text()).to.equal('Slow down');
        expect((await ask('health', 'ada')).status).to.equal(200);
        expect((await ask('', 'bob')).status).to.equal(200);
        if (name === 'koa-ratelimit') expect((await ask('', 'mallory')).status).to.equal(403);
      }
    });

  it('@nestjs/throttler: a throttler’s own getTracker and generateKey', async () => {
    const { before, after } = legacyPrograms('throttler-tracker');
    for (const code of [before, after]) {
      const { url } = await serve(code);
      const ask = async (path: string, account?: string): Promise<number> =>
        (await fetch(`${url}/${path}`, account === undefined ? {} : { headers: { 'x-account': account } }))
          .status;
      // The account has one quota for all handlers.
      expect([await ask('list', 'ada'), await ask('news', 'ada'), await ask('list', 'ada')]).to.deep.equal([
        200, 200, 429,
      ]);
      expect([await ask('list'), await ask('news')]).to.deep.equal([200, 200]);
      expect(await ask('list')).to.equal(429);
      expect(await ask('news', 'bob')).to.equal(200);
    }
  });

  it('rate-limiter-flexible: a login, with the right password after too many wrong ones', async () => {
    const { before, after } = programs('flexible-login.ts', 'A login: `consumedPoints > points`');
    for (const code of [before, after]) {
      const { url } = await serve(code);
      const logIn = async (user: string, password: string): Promise<number> => {
        const headers = { 'content-type': 'application/json' };
        const body = JSON.stringify({ user, password });
        return (await fetch(`${url}/login`, { method: 'POST', headers, body })).status;
      };
      const wrong: number[] = [];
      for (let i = 0; i < 6; i++) wrong.push(await logIn('ada', `guess ${i}`));
      expect(wrong).to.deep.equal([401, 401, 401, 401, 401, 429]);
      expect(await logIn('ada', 'correct horse')).to.equal(429);
      // A login in time forgets the wrong passwords before it.
      for (const user of ['bob', 'bob', 'bob', 'eve']) expect(await logIn(user, 'guess')).to.equal(401);
      expect(await logIn('bob', 'correct horse')).to.equal(200);
      for (let i = 0; i < 5; i++) expect(await logIn('bob', 'guess')).to.equal(401);
      // The page names the one difference: five wrong passwords are not more than five.
      expect(await logIn('bob', 'correct horse')).to.equal(code === before ? 200 : 429);
    }
  });

  it('rate-limiter-flexible with duration 0', async () => {
    const { before, after } = programs('flexible-trial.ts', 'Points that never come back (`duration: 0`)');
    const expected = ['use 1: 2 left', 'use 2: 1 left', 'use 3: 0 left', 'use 4: the trial is over'];
    expect(await printed(before)).to.deep.equal(expected);
    expect(await printed(after)).to.deep.equal(expected);
  });

  for (const from of ['bottleneck', 'p-limit, p-throttle, p-queue and axios-rate-limit']) {
    it(`${from.split(',')[0]}: two jobs at a time, in order`, async () => {
      const { before, after } = programs(`${from.split(',')[0]}.ts`, `From ${from}`);
      for (const code of [before, after]) {
        const lines = await printed(code);
        const begun = lines.filter((line) => line.endsWith('begins'));
        expect(begun).to.deep.equal(['a begins', 'b begins', 'c begins', 'd begins']);
        let active = 0;
        const most = Math.max(...lines.map((line) => (active += line.endsWith('begins') ? 1 : -1)));
        expect([lines.length, most]).to.deep.equal([8, 2]);
      }
    });

    it(`${from.split(',')[0]}: no job of 3,000 is rejected`, async () => {
      const after = changed(programs(`${from.split(',')[0]}.ts`, `From ${from}`).after, [
        ["['a', 'b', 'c', 'd']", 'Array.from({ length: 3000 }, (_, i) => `${i}`)'],
        ['resolve, 120', 'resolve, 1'],
      ]).replace('gcra 20/1s', 'gcra 5000/1s');
      expect(await printed(after)).to.have.length(6000);
    });
  }

  for (const row of [
    "rateLimited(fn, { limit: 50, window: '1s', wait: true })",
    "limitFetch(fetch, '50/1s').schedule(fn)",
    "limitFetch(fetch, 'concurrency 10/30s').schedule(fn)",
  ]) {
    it(`the table's ${row}: no job of 3,000 is rejected`, async () => {
      expect(pages).to.contain(`: \`${row}\``);
      const [made] = row.replace('limit: 50', 'limit: 2000').replace('50/1s', '2000/1s').split('.schedule');
      const code = `
        import { limitFetch } from 'headgate/fetch';
        import { rateLimited } from 'headgate/decorators';
        let done = 0;
        const fn = async () => void done++;
        const made = ${made};
        const job = () => made.schedule?.(fn) ?? made();
        await Promise.all(Array.from({ length: 3000 }, job));
        console.log(done);`;
      expect(await printed(code)).to.deep.equal(['3000']);
    });
  }
});
