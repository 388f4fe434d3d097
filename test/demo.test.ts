import { spawn, type ChildProcess } from 'node:child_process';
import { expect } from 'chai';
import { memoryStore } from 'headgate';
import { chromium, type Browser, type Page } from 'playwright-core';
import { findBrowser } from '../scripts/browser.mjs';
import { rows } from '../scripts/demo/algorithms.js';
import { startServers, type DemoServer } from '../scripts/demo/servers.js';
import { servers } from './support/shared-servers.js';

const root = new URL('../', import.meta.url).pathname;

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

/** The picture's line of an algorithm: its total. */
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
      for (const { name } of rows) {
        const [admitted, denied] = [total(output(), name, 'admitted'), total(output(), name, 'denied')];
        expect(admitted, `${name} admitted:\n${output()}`).to.be.greaterThan(0);
        expect(denied, `${name} denied:\n${output()}`).to.be.greaterThan(0);
        expect(admitted + denied).to.equal(sent);
        expect(output()).to.match(new RegExp(`│ ${name} .*r=\\d.*r=\\d.*│ \\d+`));
      }
      expect(output()).to.contain('HTTP/1.1 429');
      expect(output()).to.not.contain('\u001b');
    });
  }

  it('serves until it is interrupted; the commands that it prints work', async () => {
    const { child, output, ended } = demo(['--no-show']);
    children.push(child);
    await printed(child, output, 'Serving until Ctrl-C');
    const urls = [...output().matchAll(/http:\/\/127\.0\.0\.1:\d+\/[^' ;\n]*/g)].map(([url]) => url);
    expect(urls).to.have.length.greaterThan(4);
    for (const url of urls) expect((await fetch(url)).status, url).to.equal(200);
    const statuses: number[] = [];
    const repeated = urls.find((url) => url.endsWith('/fixed-window'))!;
    for (let i = 0; i < 7; i++) statuses.push((await fetch(`${repeated}?window=1h&key=me`)).status);
    expect(statuses).to.deep.equal([200, 200, 200, 200, 200, 200, 429]);
    const bad = await fetch(`${repeated}?limit=none`);
    expect(bad.status).to.equal(400);
    expect(await bad.text()).to.contain('policies.limit');
    child.kill('SIGINT');
    child.kill('SIGTERM');
    expect(await ended, output()).to.equal(0);
  });

  it('says what to do when there is no Redis', async () => {
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

/** Runs in the page. */
const countColours = `(async () => {
  const canvas = document.querySelector('#fixed-window canvas');
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const found = { green: 0, red: 0 };
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 128) continue;
    if (data[i + 1] > 1.5 * data[i]) found.green += 1;
    if (data[i] > 1.5 * data[i + 1]) found.red += 1;
  }
  return found;
})()`;

describe('the demo’s page', () => {
  let started: DemoServer[];
  let browser: Browser;
  let page: Page;
  let problems: string[];
  let foreign: string[];

  before(async function () {
    this.timeout(60_000);
    started = await startServers(memoryStore(), 'in memory');
    browser = await chromium.launch({ executablePath: findBrowser(), args: ['--no-sandbox'] });
  });

  after(async () => {
    await browser?.close();
    for (const server of started) await server.close();
  });

  beforeEach(async () => {
    page = await browser.newPage();
    problems = [];
    foreign = [];
    page.on('pageerror', (error) => problems.push(error.message));
    page.on('request', (request) => {
      const { hostname, protocol } = new URL(request.url());
      if (hostname !== '127.0.0.1' && protocol !== 'data:') foreign.push(request.url());
    });
    await page.goto(`${started[0]!.url}/?still`);
    await page.locator('#concurrency').waitFor();
    // Windows that don't end while a test looks.
    await page.locator('#limit').fill('4');
    await page.locator('#window').selectOption('1m');
    await page.locator('#limit').blur();
  });

  afterEach(async () => {
    await page.close();
    expect(problems).to.deep.equal([]);
    expect(foreign, 'it needs no network').to.deep.equal([]);
  });

  /** Waits until a row has answered so many requests; how many it admitted. */
  async function admitted(name: string, answered: number): Promise<number> {
    const counts = page.locator(`#${name} .counts span`);
    for (;;) {
      const [allowed, denied] = (await counts.allTextContents()).map(Number);
      if (allowed! + denied! >= answered) return allowed!;
    }
  }

  it('has a row for every algorithm', async () => {
    expect(await page.locator('section .name').allTextContents()).to.deep.equal(rows.map(({ name }) => name));
  });

  it('sends a burst by a button, in turn to both servers, to all algorithms', async () => {
    const hosts = new Set<string>();
    page.on('request', (request) => hosts.add(new URL(request.url()).origin));
    await page.locator('#burst10').click();
    expect(await admitted('fixed-window', 10)).to.equal(4);
    expect(await admitted('sliding-window', 10)).to.equal(4);
    expect(await admitted('sliding-log', 10)).to.equal(4);
    expect(await admitted('token-bucket', 10)).to.equal(4);
    expect(await admitted('gcra', 10)).to.equal(1);
    for (const { url } of started) expect([...hosts]).to.include(url);
    const answer = await page.locator('#sliding-window .answer').textContent();
    expect(answer).to.match(/^(Express|Fastify): 429\n/);
    expect(answer).to.contain('ratelimit-policy: "sliding-window";q=4;w=60');
    expect(answer).to.match(/retry-after: \d+/);
    expect(await page.locator('#sliding-window .remaining').textContent()).to.equal('0');
  });

  it('works by the keyboard alone', async () => {
    await page.keyboard.press('2'); // Not this one.
    await page.keyboard.press('b');
    expect(await admitted('fixed-window', 10)).to.equal(4);
    expect(await admitted('sliding-window', 0)).to.equal(0);
    await page.keyboard.press('n'); // A new client has its whole quota.
    await page.keyboard.press('s');
    expect(await admitted('fixed-window', 1)).to.equal(1);
    await page.locator('#send').focus();
    await page.keyboard.press('Enter');
    expect(await admitted('fixed-window', 2)).to.equal(2);
  });

  it('goes on while the button is held, and stops', async () => {
    await page.locator('#rate').fill('20');
    await page.locator('#send').hover();
    await page.mouse.down();
    await admitted('fixed-window', 10);
    await page.mouse.up();
    // Once all are answered, no more come.
    const counts = page.locator('#fixed-window .counts');
    let [last, count] = ['', await counts.textContent()];
    while (last !== count) {
      await page.waitForTimeout(200);
      [last, count] = [count ?? '', await counts.textContent()];
    }
    expect(count).to.match(/^4 in, \d+ out$/);
  });

  it('shows what was wrong with a policy', async () => {
    await page.locator('#limit').fill('0.5');
    await page.locator('#limit').blur();
    await page.keyboard.press('s');
    const problem = page.locator('#problem');
    await problem.waitFor();
    expect(await problem.textContent())
      .to.contain('0.5')
      .and.to.contain('whole number');
  });

  it('runs its show on load, until somebody does something', async () => {
    await page.goto(started[0]!.url);
    const run = page.locator('#run');
    await admitted('fixed-window', 12);
    expect(await run.getAttribute('aria-pressed')).to.equal('true');
    await page.locator('#burst10').click();
    expect(await run.getAttribute('aria-pressed')).to.equal('false');
    await page.goto(started[0]!.url);
    await admitted('fixed-window', 12);
    await run.click();
    expect(await run.getAttribute('aria-pressed')).to.equal('false');
    await page.keyboard.press('r');
    expect(await run.getAttribute('aria-pressed')).to.equal('true');
  });

  for (const width of [390, 320]) {
    it(`fits ${width} px`, async () => {
      await page.setViewportSize({ width, height: 800 });
      await page.keyboard.press('b');
      await admitted('fixed-window', 10);
      expect(await page.evaluate<number>('document.documentElement.scrollWidth')).to.equal(width);
      const cut = await page.evaluate<
        string[]
      >(`[...document.querySelectorAll('button, input, select, label, canvas, fieldset')]
        .filter((each) => each.getBoundingClientRect().right > innerWidth + 0.5).map((each) => each.outerHTML.slice(0, 60))`);
      expect(cut).to.deep.equal([]);
      // What one sees is the rows, not the controls alone.
      const { y } = (await page.locator('#fixed-window canvas').boundingBox())!;
      await page.evaluate('scrollTo(0, 400)');
      const controls = (await page.locator('#controls').boundingBox())!;
      expect(y + controls.height).to.be.greaterThan(0);
      expect(controls.y + controls.height).to.be.lessThan(400);
    });
  }

  it('draws', async () => {
    await page.keyboard.press('b');
    await admitted('fixed-window', 10);
    const colours = await page.evaluate<{ green: number; red: number }>(countColours);
    expect(colours.green).to.be.greaterThan(20);
    expect(colours.red).to.be.greaterThan(20);
  });
});
