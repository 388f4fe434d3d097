// npm run docs:screens: takes the pictures of the README, docs/plots/dashboard-*.png, replay-*.png and playground-*.png (which needs `npm run
// docs:site` before; `-- playground` takes only this one). A site runs on a new Redis for some minutes
// before, so that the page shows real counts. `-- 3` lets it run for three minutes in place of 16, and `-- redis://127.0.0.1:6379` shows a site that
// already runs.
import { spawnSync, type SpawnSyncOptions } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { dashboard } from 'headgate-dashboard';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { chromium, type Browser } from 'playwright-core';
import { startServer } from '../../test/support/servers.js';
import { root } from '../lib/run.mjs';
import { findProgram } from '../programs.mjs';
import { DEFAULTS, toLink } from './playground/settings.js';
import { serveSite } from './site/serve.js';
import { makeChanges, startSite } from './site.js';

const MAX_BYTES = 200_000;
const SCHEMES = ['light', 'dark'] as const;

/** The settings of the playground in the picture. */
const PLAYGROUND = toLink({ ...DEFAULTS, pattern: 'edge', rate: 2 });

const [given = '16'] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: findProgram('chromium'), args: ['--no-sandbox'] });
const directory = mkdtempSync(join(tmpdir(), 'headgate-screens-'));
try {
  await takePlayground();
  if (given !== 'playground') {
    await takeReplay();
    await takeDashboard();
  }
} finally {
  rmSync(directory, { recursive: true });
  await browser.close();
}

async function takeDashboard(): Promise<void> {
  if (given.startsWith('redis:')) return showSite(given);
  const minutes = Number(given);
  const server = await startServer('redis', { args: ['--maxmemory', '256mb'] });
  const stop = startSite(server.url);
  console.log(`The site runs for ${minutes} minutes.`);
  await sleep(Math.max(0.2, minutes - 4) * 60_000);
  await makeChanges(server.url);
  await sleep(Math.min(4, minutes) * 60_000);
  await showSite(server.url);
  await stop();
  await server.stop();
}

async function showSite(site: string): Promise<void> {
  const redis = new Redis(site);
  const page = dashboard({ store: redisStore(redis), title: 'production', actions: () => ({ by: 'ada' }) });
  const web = createServer(page.node).listen(0, '127.0.0.1');
  await once(web, 'listening');
  const url = `http://127.0.0.1:${(web.address() as AddressInfo).port}/`;
  await take('dashboard', url, async (tab) => {
    await tab.locator('.limiters tbody').first().waitFor();
    // The growth of the memory needs two readings.
    await sleep(8000);
  });
  web.closeAllConnections();
  web.close();
  redis.disconnect();
}

async function takePlayground(): Promise<void> {
  const site = await serveSite();
  await take('playground', `${site.url}/docs/playground.html#${PLAYGROUND}`, async (tab) => {
    await tab.locator('.playground[data-state="shown"]').waitFor();
    // The times depend on the machine.
    await tab.addStyleTag({ content: '.playground .status { display: none }' });
    await tab.evaluate('scrollTo(0, document.querySelector(".playground").getBoundingClientRect().top - 80)');
  });
  await site.close();
}

async function takeReplay(): Promise<void> {
  const node = (args: readonly string[], options: SpawnSyncOptions) => {
    const { status } = spawnSync(process.execPath, args, { cwd: directory, ...options });
    if (status !== 0) throw new Error(`node ${args.join(' ')} failed.`);
  };
  const log = openSync(join(directory, 'access.log'), 'w');
  node([join(root, 'scripts/access-log.mjs'), '200000'], { stdio: ['ignore', log, 'inherit'] });
  closeSync(log);
  const policies = ['--policy', 'burst=token-bucket 10/1s burst 30', '--policy', 'minute=60/1m'];
  const program = ['--import', import.meta.resolve('tsx'), join(root, 'packages/cli/src/main.ts')];
  node([...program, 'replay', 'access.log', ...policies, '--report', 'report.html'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const url = pathToFileURL(join(directory, 'report.html')).href;
  await take('replay', url, (tab) => tab.locator('#requests canvas').waitFor());
}

/** Takes a picture of a page in both colour schemes. */
async function take(
  name: string,
  url: string,
  isReady: (tab: Awaited<ReturnType<Browser['newPage']>>) => Promise<void>,
): Promise<void> {
  for (const colorScheme of SCHEMES) {
    const tab = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 800 } });
    await tab.goto(url);
    await isReady(tab);
    const path = join(root, `docs/plots/${name}-${colorScheme}.png`);
    await tab.screenshot({ path });
    await tab.close();
    const { size } = statSync(path);
    console.log(`${path}: ${Math.round(size / 1000)} kB`);
    if (size > MAX_BYTES) throw new Error(`${path} is larger than ${MAX_BYTES / 1000} kB.`);
  }
}
