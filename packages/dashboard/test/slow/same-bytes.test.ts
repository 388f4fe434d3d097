// Each button of the page leaves the same bytes in the store as the command line that its dialog shows.
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import type { Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { headgate, told } from '../../../cli/test/cli.js';
import { servers } from '../../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { endWith, limiterOf, openTab } from '../page.js';
import { startPage, type Site } from '../servers.js';

const client = clients.redis;

/** The content of all keys of a prefix, without the publications of processes. Times become T. */
async function contentOf(prefix: string): Promise<Record<string, string>> {
  const keys = (await client.keys(`${prefix}:*`)).filter((key) => !key.startsWith(`${prefix}:{limiters}`));
  const masked = (value: unknown): string =>
    JSON.stringify(value)
      .replace(/\b1[5-9]\d{11,14}(-\d+)?\b/g, 'T')
      // The revision of a record is new with each write.
      .replace(/t\*\\+t[\w-]{16}\\/g, 't*R')
      .replace(/\b\d{6,9}\b/g, (digits) => roundedTo(Number(digits)));
  const entries = keys
    .sort()
    .map(async (key) => [masked(key.slice(prefix.length)), masked(await valueOf(key))] as const);
  return Object.fromEntries(await Promise.all(entries));
}

/** The rest of a ban or an override, which differs by the time between the two changes. */
const roundedTo = (ms: number): string => String(Math.round(ms / 60_000) * 60_000);

async function valueOf(key: string): Promise<unknown> {
  switch (await client.type(key)) {
    case 'string':
      return client.get(key);
    case 'hash':
      return client.hgetall(key);
    case 'zset':
      return client.zrange(key, '0', '-1', 'WITHSCORES');
    case 'stream':
      return client.xrange(key, '-', '+');
    case 'list':
      return client.lrange(key, 0, -1);
    default:
      return client.smembers(key);
  }
}

/** The words of the shown command line, as bash passes them to the program. */
function wordsIn(line: string): string[] {
  const script = `headgate() { printf '%s\\0' "$@"; }; ${line}`;
  return execFileSync('bash', ['-c', script]).toString().split('\0').slice(0, -1);
}

describe('buttons and command lines', function () {
  this.timeout(60_000);
  let site: Site;
  let page: Page;
  /** The prefix that the page changes, and the prefix that the command line changes. */
  let prefixes: [string, string];
  let limiters: Limiter[];

  beforeEach(async () => {
    prefixes = [freshPrefix(), freshPrefix()];
    limiters = [];
    for (const prefix of prefixes) {
      const store = redisStore(client, { prefix, publish: '20ms', localDenials: false, counts: false });
      const policies = ['minute=20/1h', 'day=token-bucket 50/1d', 'account=5/1d by account'];
      limiters.push(limiterOf(store, 'api', { policies }));
      await told(['--redis', servers.redis.url, '--prefix', prefix], 'api');
    }
    site = endWith(await startPage({ store: redisStore(client, { prefix: prefixes[0] }), from: 'cli' }));
  });

  const both = async (use: (limiter: Limiter) => Promise<unknown>) => {
    for (const limiter of limiters) await use(limiter);
  };

  /** Presses a button of the key's screen, gives a reason, runs the shown command line on the twin, and compares both. */
  const press = async (key: string, button: string, prepare?: () => Promise<unknown>) => {
    ({ page } = await openTab(`${site.url}#/key/${encodeURIComponent(key)}`, { user: 'ada' }));
    await page.locator('.verdict').waitFor();
    for (const summary of await page.locator('details:not([open]) > summary').all()) await summary.click();
    await page.locator('.answer').first().getByRole('button', { name: button, exact: true }).click();
    await prepare?.();
    await page.getByLabel('Reason').fill("it's INC-7");
    const line = await page.getByRole('dialog').locator('pre').innerText();
    await page.getByRole('dialog').locator('button[type=submit]').click();
    await page.locator('.note').waitFor();
    const [command = '', ...words] = wordsIn(line);
    expect(words[words.indexOf('--prefix') + 1], line).to.equal(prefixes[0]);
    words[words.indexOf('--prefix') + 1] = prefixes[1];
    const { code, stderr } = await headgate([command, '--redis', servers.redis.url, ...words]);
    expect(code, `${line}\n${stderr}`).to.equal(0);
    const [ours, theirs] = [await contentOf(prefixes[0]), await contentOf(prefixes[1])];
    expect(Object.keys(ours).length, 'keys').to.be.greaterThan(0);
    expect(ours, line).to.deep.equal(theirs);
  };

  for (const key of ['user:42', '-v', "it's", '\u202Ekey', '203.0.113.7', '2001:db8::1']) {
    const name = JSON.stringify(key);
    it(`Ban of ${name}`, () => press(key, 'Ban'));
    // A key with a quote and one that the limiter counts as a network: the dialogs make all command lines alike.
    if (key !== "it's" && key !== '2001:db8::1') continue;
    it(`Reset of ${name}`, async () => {
      await both((limiter) => limiter.consume(key === '2001:db8::1' ? '2001:db8::/56' : key));
      await press(key, 'Reset');
    });
    it(`Limits × 2 of ${name}`, () => press(key, 'Limits × 2'));
  }

  it('Unban', async () => {
    await both((limiter) => limiter.ban('user:42', '2h', { by: 'ops', reason: 'x' }));
    await press('user:42', 'Unban');
  });

  it('a ban of another length', () =>
    press('user:42', 'Ban', () => page.getByText('7d', { exact: true }).click()));

  it('a ban of a network', () => press('198.51.100.0/29', 'Ban'));

  it('a ban in all limiters', async () => {
    for (const prefix of prefixes) {
      const store = redisStore(client, { prefix, publish: '20ms', localDenials: false, counts: false });
      limiters.push(limiterOf(store, 'login', { overrides: false }));
      await told(['--redis', servers.redis.url, '--prefix', prefix], 'login');
    }
    await press('user:42', 'Ban', () => page.getByText('in all limiters').click());
  });

  it('× 10 until tomorrow', () => press('user:42', '× 10', () => page.getByText('until tomorrow').click()));

  it('other limits that the operator typed', () =>
    press('user:42', 'Limits × 2', () => page.getByLabel('Limit of minute').fill('7/10s')));

  it('End override', async () => {
    await both((limiter) =>
      limiter.override('user:42', { minute: '40/1h' }, { for: '1d', by: 'ops', reason: 'x' }),
    );
    await press('user:42', 'End override');
  });

  it('the undo of a note takes the change back', async () => {
    await press('user:42', 'Ban');
    expect((await limiters[0]!.peek('user:42')).allowed).to.equal(false);
    await page.locator('.note').getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('dialog').locator('button[type=submit]').click();
    await page.locator('.note', { hasText: 'Undid' }).waitFor();
    await sleep(0);
    expect((await limiters[0]!.peek('user:42')).allowed).to.equal(true);
  });
});
