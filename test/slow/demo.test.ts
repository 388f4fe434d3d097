import { spawn, type ChildProcess } from 'node:child_process';
import { expect } from 'chai';
import { servers } from '../support/shared-servers.js';

const root = new URL('../../', import.meta.url).pathname;

function demo(args: string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, ['scripts/demo.mjs', ...args], {
    cwd: root,
    env: { ...process.env, REDIS_URL: '', NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, output: () => output, ended };
}

/** The total that the output shows for an algorithm. */
function total(output: string, name: string, kind: 'admitted' | 'denied'): number {
  const line = new RegExp(`^${name} +admitted .*? (\\d+)\\n +denied .*? (\\d+)$`, 'm').exec(output);
  return Number(line?.[kind === 'admitted' ? 1 : 2]);
}

describe('npm run demo', function () {
  this.timeout(60_000);
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  for (const kind of ['memory', 'redis', 'valkey'] as const) {
    it(`shows every algorithm and exits, ${kind}`, async () => {
      const env = kind === 'memory' ? {} : { REDIS_URL: `redis://127.0.0.1:${servers[kind].port}` };
      const { child, output, ended } = demo(['--once'], env);
      children.push(child);
      expect(await ended, output()).to.equal(0);
      expect(output()).to.contain(kind === 'memory' ? 'quotas in memory' : `quotas in Redis`);
      const sent = Number(/^requests +sent .*? (\d+)$/m.exec(output())?.[1]);
      const names = [...output().matchAll(/^(\S+) +admitted/gm)].map(([, name]) => name!);
      expect(names).to.include.members(['fixed-window', 'several']).and.to.have.length(8);
      for (const name of names) {
        const [admitted, denied] = [total(output(), name, 'admitted'), total(output(), name, 'denied')];
        expect(admitted, `${name} admitted:\n${output()}`).to.be.greaterThan(0);
        expect(denied, `${name} denied:\n${output()}`).to.be.greaterThan(0);
        expect(admitted + denied).to.equal(sent);
        expect(output()).to.match(new RegExp(`│ ${name} .*r=\\d.*r=\\d.*│ \\d+`));
      }
      expect(output()).to.contain('HTTP/1.1 429');
      expect(output())
        .to.not.contain('\u001b')
        .and.to.not.match(/\[HEADGATE_(?!BACKGROUND)/);
    });
  }

  it('serves until it is interrupted, and its printed commands work', async () => {
    const { child, output, ended } = demo(['--no-show']);
    children.push(child);
    await printed(child, output, 'Serving until Ctrl-C');
    const urls = [...output().matchAll(/http:\/\/127\.0\.0\.1:\d+\/[^' ;\n]*/g)].map(([url]) => url);
    expect(urls).to.have.length(4);
    for (const url of urls) expect((await fetch(url)).status, url).to.equal(200);
    const statuses: number[] = [];
    const repeated = urls.find((url) => url.endsWith('/fixed-window'))!;
    for (let i = 0; i < 7; i++) statuses.push((await fetch(`${repeated}?window=1h&key=me`)).status);
    expect(statuses).to.deep.equal([200, 200, 200, 200, 200, 200, 429]);
    const bad = await fetch(`${repeated}?limit=none`);
    expect(bad.status).to.equal(400);
    expect(await bad.text()).to.contain('policies.limit');
    // A second signal could come when Node has already removed its handlers at its end.
    child.kill('SIGINT');
    expect(await ended, output()).to.equal(0);
  });

  it('explains the fix if Redis is missing', async () => {
    const { child, output, ended } = demo(['--once'], { REDIS_URL: 'redis://127.0.0.1:1' });
    children.push(child);
    expect(await ended).to.equal(1);
    expect(output()).to.contain('REDIS_URL=redis://127.0.0.1:1').and.to.contain('unset REDIS_URL');
  });
});

async function printed(child: ChildProcess, output: () => string, text: string): Promise<void> {
  while (!output().includes(text)) {
    if (child.exitCode !== null) throw new Error(`The demo has ended: ${output()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
