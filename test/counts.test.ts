// Counts instead of times: what a decision allocates, loads and sends. A count shows on any machine, in each run, what a benchmark shows only
// on an idle one. A count above its bound is a regression to be found, and a count far below it is a reason to lower the bound.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { build } from 'esbuild';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { redisStore } from 'headgate/redis';
import { buildCode } from '../scripts/lib/library.js';
import { read, root, TYPESCRIPT } from '../scripts/lib/run.mjs';
import { scriptsOf, type Kind } from './support/script-sets.js';
import { clients, freshPrefix } from './support/stores.js';

type Policies = NonNullable<CreateLimiterOptions['policies']>;

/** The report of `loaded-child.ts`. */
interface Loaded {
  readonly before: readonly string[];
  readonly loaded: readonly string[];
}

/** The report of `bundle-child.cjs`. */
interface Bundled {
  readonly imported: { readonly files: readonly string[] };
  readonly decided: { readonly files: readonly string[]; readonly modules: readonly string[] };
}

/** Runs a program of `support`, and resolves with its message. */
async function messageOf<T>(program: string, flags: readonly string[]): Promise<T> {
  const path = fileURLToPath(new URL(`support/${program}`, import.meta.url));
  const child = fork(path, { execArgv: [...flags, ...TYPESCRIPT] });
  const [message] = (await once(child, 'message')) as [T];
  return message;
}

describe('counts', () => {
  it('bytes allocated by a decision in memory, and kept by a limiter', async function () {
    this.timeout(120_000);
    const heap = ['--min-semi-space-size=128', '--max-semi-space-size=128'];
    const flags = ['--expose-gc', '--single-threaded', ...heap];
    const bytes = await messageOf<Record<string, number>>('counts-child.ts', flags);
    const most = {
      'one policy': 780,
      'a hundred limiters in turns': 790,
      'two policies': 1320,
      'a shared limit': 6300,
      'a limiter': 19_500,
    };
    expect(bytes).to.have.all.keys(most);
    for (const [subject, bound] of Object.entries(most)) expect(bytes[subject], subject).to.be.at.most(bound);
  });

  it('bytes of a decision by an asynchronous store that outlive collections of young objects', async function () {
    this.timeout(60_000);
    const heap = ['--max-semi-space-size=8', '--initial-heap-size=512'];
    const bytes = await messageOf<number>('promoted-child.ts', ['--expose-gc', '--single-threaded', ...heap]);
    expect(bytes).to.be.at.most(300);
  });

  it('modules that `headgate/express` evaluates', async () => {
    const { metafile } = await build({
      ...{ absWorkingDir: root, entryPoints: ['src/express.ts'], bundle: true, write: false, metafile: true },
      ...{ platform: 'node', format: 'esm', packages: 'external', logLevel: 'error' },
    });
    const [output] = Object.values(metafile.outputs);
    expect(Object.keys(output!.inputs).length).to.be.at.most(180);
  });

  it('modules of Node that a first decision in memory loads', () => {
    const program = fileURLToPath(new URL('support/loaded-child.ts', import.meta.url));
    const { before, loaded } = JSON.parse(read('node', [...TYPESCRIPT, program])!) as Loaded;
    expect(before).to.include('NativeModule internal/crypto/random');
    expect(loaded.filter((name) => name.startsWith('NativeModule'))).to.deep.equal([]);
  });

  it('files and bytes that `headgate/express` loads from the package, and nothing more for a first decision', async function () {
    this.timeout(120_000);
    const parent = join(root, 'node_modules/.cache');
    mkdirSync(parent, { recursive: true });
    const directory = mkdtempSync(join(parent, 'counts-'));
    try {
      await buildCode(directory);
      const program = fileURLToPath(new URL('support/bundle-child.cjs', import.meta.url));
      const { imported, decided } = JSON.parse(read('node', [program, join(directory, 'cjs')])!) as Bundled;
      const packages = imported.files.filter((file) => !file.startsWith(directory));
      expect(packages.map((file) => /node_modules\/([^/]+)/.exec(file)?.[1])).to.have.members([
        'ipaddr.js',
        'ms',
      ]);
      expect(imported.files).to.have.lengthOf.at.most(10);
      const bytes = imported.files.reduce((sum, file) => sum + statSync(file).size, 0);
      expect(bytes).to.be.at.most(550_000);
      expect(decided).to.deep.equal({ files: [], modules: [] });
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  describe('on Redis', () => {
    /** The policies, their kinds, the commands of their script, and its arguments. With overrides, the key has one. */
    interface Case {
      readonly policies: Policies;
      /** Absent for the calendar, whose script is the body of a function. */
      readonly kinds?: readonly Kind[];
      readonly calls: number;
      readonly args: number;
      readonly overrides?: true;
    }
    const sliding = ['a=100/1h', 'b=100/1d', 'c=100/2d', 'd=100/3d'] as const;
    const CASES: Readonly<Record<string, Case>> = {
      'fixed window': { policies: ['fixed-window 100/1h'], kinds: ['fixed'], calls: 3, args: 2 },
      'sliding window': { policies: ['100/1h'], kinds: ['window'], calls: 4, args: 2 },
      gcra: { policies: ['gcra 100/1h'], kinds: ['bucket'], calls: 3, args: 2 },
      calendar: { policies: ['calendar 100/day'], calls: 4, args: 2 },
      'two policies': { policies: [...sliding.slice(0, 2)], kinds: ['window', 'window'], calls: 7, args: 2 },
      'four policies': {
        ...{ policies: [...sliding], kinds: ['window', 'window', 'window', 'window'] },
        ...{ calls: 10, args: 2 },
      },
      'an override of a sliding window': {
        ...{ policies: ['100/1h'], kinds: ['window'], overrides: true, calls: 5, args: 3 },
      },
      'an override of a fixed window': {
        ...{ policies: ['fixed-window 100/1h'], kinds: ['fixed'], overrides: true, calls: 4, args: 3 },
      },
      'an override of a bucket': {
        ...{ policies: ['gcra 100/1h'], kinds: ['bucket'], overrides: true, calls: 4, args: 3 },
      },
    };
    for (const [title, { policies, kinds, calls, args, overrides = false }] of Object.entries(CASES))
      it(`commands and arguments of a script: ${title}`, async () => {
        const store = redisStore(clients.redis, { prefix: freshPrefix() });
        const limiter = createLimiter({
          name: 'api',
          store,
          overrides,
          policies: policies as never,
          timeout: '10s',
          warnings: false,
        });
        if (overrides) await limiter.override('ada', { limit: 200 });
        // The first decision of a process sends the text of the script, and the first of a key begins its windows.
        for (let i = 0; i < 2; i++) await limiter.consume('ada');
        // Another connection that begins now would send commands before ioredis expects those of others.
        const monitor = await clients.redis.monitor();
        const seen: { source: string; command: string[] }[] = [];
        const ended = new Promise((resolve) =>
          monitor.on('monitor', (_: string, command: string[], source: string) => {
            if (command[0] === 'ping') resolve(undefined);
            else seen.push({ source, command });
          }),
        );
        const { allowed } = await limiter.consume('ada');
        await clients.redis.ping();
        await ended;
        monitor.disconnect();
        await limiter.close();
        expect(allowed).to.equal(true);
        const scripts = seen.filter(({ command: [name] }) => name === 'evalsha');
        expect(scripts).to.have.length(1);
        const [, sha, keys, ...rest] = scripts[0]!.command;
        expect(rest.length - Number(keys), 'arguments').to.be.at.most(args);
        expect(seen.filter(({ source }) => source === 'lua').length, 'commands').to.be.at.most(calls);
        if (!kinds) return;
        // The common decision needs no more than the beginning of the script, in which each function costs time.
        const features = { ban: false, overrides, ids: false, thresholds: false, waits: false };
        const [script] = scriptsOf(kinds, features);
        expect(script!.sha).to.equal(sha);
        const [beginning] = script!.source.split(/^local function headgate_add_verdict|^local kernels = /m);
        rest[Number(keys)] = String(Date.now() + 60_000);
        // MONITOR escapes backslashes and line feeds, of which packed params have some.
        const sent = rest.map((text) =>
          text.replace(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char)),
        );
        const lua = `${beginning!}return redis.error_reply('ERR the rest of the script')`;
        expect(await clients.redis.eval(lua, Number(keys), ...sent)).to.be.an('array');
      });
  });
});
