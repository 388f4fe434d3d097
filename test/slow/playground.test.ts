// The playground: its numbers are those of the limiter, and its page works for everybody.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import { createLimiter, memoryStore, parsePolicy, type Decision, type HeadgateError } from 'headgate';
import { rateLimitHeaders } from 'headgate/http';
import sinon from 'sinon';
import type { readAccessLog } from '../../scripts/docs/playground/access-log.js';
import { bundlePlayground } from '../../scripts/docs/playground/bundle.js';
import type * as Core from '../../scripts/docs/playground/core.js';
import { inWindow, inWindowAt } from '../../scripts/docs/playground/peak.js';
import {
  DEFAULTS,
  EXAMPLES,
  fromLink,
  toLink,
  type Settings,
} from '../../scripts/docs/playground/settings.js';
import { traceOf } from '../../scripts/docs/playground/trace.js';
import { decisionsOf, START } from './site/decisions.js';

const root = new URL('../../', import.meta.url).pathname;
/** The parts of a decision that the playground shows. */
const shown = (decision: Decision) => {
  const { allowed, remaining, retryAfterMs, delayMs, reason, policies } = decision;
  return { allowed, remaining, retryAfterMs, delayMs, reason, policies, headers: rateLimitHeaders(decision) };
};

describe('the playground', function () {
  this.timeout(600_000);
  let directory: string;
  let core: typeof Core;
  let read: typeof readAccessLog;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'headgate-playground-'));
    await bundlePlayground(directory);
    core = (await import(pathToFileURL(join(directory, 'core.js')).href)) as typeof Core;
    ({ readAccessLog: read } = (await import(pathToFileURL(join(directory, 'log.js')).href)) as {
      readAccessLog: typeof readAccessLog;
    });
  });

  after(() => rmSync(directory, { recursive: true }));

  const settingsOf = (change: Partial<Settings>): Settings => ({ ...DEFAULTS, compare: [], ...change });

  describe('its numbers are those of the limiter', () => {
    const all: Record<string, Partial<Settings>> = {
      ...EXAMPLES,
      'two policies, of an account, too': {
        policies: 'a=20/10s\nb=token-bucket 1/1s burst 5 by account',
        ...{ pattern: 'bursts', rate: 3 },
      },
    };
    const options: Record<string, Parameters<typeof decisionsOf>[2]> = {
      'One limit, shared fairly': { keyOf: (tenant) => ({ key: 'everyone', tenant }) },
      'A ban after five denials': { ban: { after: 5, within: '1m', for: '20s' } },
      'Slots: a few at a time': { takes: 2000 },
      'two policies, of an account, too': { keyOf: (key) => ({ key, account: key }) },
    };
    for (const [name, change] of Object.entries(all)) {
      if (change.wait) continue;
      it(name, async () => {
        const settings = settingsOf(change);
        const { lanes } = await core.simulate(settings);
        const policies = settings.policies.split('\n');
        const window = { '10/10s': 10_000 }[policies[0]!] ?? lanes[0]!.peak?.window ?? 1;
        const decisions = await decisionsOf(policies, traceOf(settings, window, []), options[name]);
        expect(decisions.length).to.be.above(30);
        const denied = decisions.filter(({ allowed }) => !allowed);
        expect(lanes[0]!.counts.denied).to.equal(denied.length).and.above(0);
        expect(lanes[0]!.outcomes.map(({ decision }) => shown(decision))).to.deep.equal(decisions.map(shown));
        expect(lanes[0]!.longestRetry).to.equal(Math.max(...denied.map(({ retryAfterMs }) => retryAfterMs!)));
      });
    }

    it('the algorithms beside the first policy', async () => {
      const settings = settingsOf({ compare: ['fixed-window', 'sliding-log', 'leaky-bucket'] });
      const { lanes } = await core.simulate(settings);
      const texts = ['fixed-window 10/10s', 'sliding-log 10/10s', 'leaky-bucket 10/10s burst 1 max-delay 5s'];
      for (const [i, text] of texts.entries()) {
        const decisions = await decisionsOf([text], traceOf(settings, 10_000, []));
        const mine = lanes[i + 1]!.outcomes.map(({ decision }) => ({
          ...shown(decision),
          headers: undefined,
        }));
        expect(mine, text).to.deep.equal(decisions.map((each) => ({ ...shown(each), headers: undefined })));
      }
      expect(lanes[1]!.peak!.units, 'a window of two halves').to.be.above(10).and.at.most(20);
      expect(lanes[0]!.peak!.units).to.equal(10);
    });

    it('a line: the same requests wait as long as in the limiter under fake timers', async () => {
      const settings = settingsOf(EXAMPLES['Denied requests wait in line']!);
      const { lanes } = await core.simulate(settings);
      const trace = traceOf(settings, 10_000, []);
      const clock = sinon.useFakeTimers({
        now: START,
        toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'],
      });
      try {
        const limiter = createLimiter({ policies: settings.policies, warnings: false, store: memoryStore() });
        const ends: Promise<object>[] = [];
        const end = () => Date.now() - START;
        for (const { at, client } of trace) {
          await clock.tickAsync(START + at - Date.now());
          const wait = limiter.wait(client, { timeout: settings.wait });
          ends.push(
            wait.then(
              () => ({ allowed: true, end: end() }),
              (error: HeadgateError) => ({ allowed: error.decision!.allowed, end: end() }),
            ),
          );
        }
        await clock.tickAsync(60_000);
        const mine = lanes[0]!.outcomes.map(({ decision: { allowed }, end }) => ({ allowed, end }));
        expect(mine).to.deep.equal(await Promise.all(ends));
        expect(lanes[0]!.counts.delayed).to.be.above(20);
        expect(lanes[0]!.counts.denied).to.be.above(5);
        await limiter.close();
      } finally {
        clock.restore();
      }
    });

    it('an access log, at the times of its requests', async () => {
      const { stdout } = spawnSync('node', ['scripts/access-log.mjs', '2000'], {
        cwd: root,
        encoding: 'utf8',
      });
      const log = read('access.log', `${stdout}no line of a log\n`);
      expect(log.requests).to.have.length(2000);
      const times = [...stdout.matchAll(/\[(\d+)\/(\w+)\/(\d+):(.*?)\]/g)].map(([, ...parts]) =>
        Date.parse(parts.join(' ')),
      );
      expect(log.start).to.equal(Math.min(...times));
      const { lanes } = await core.simulate(settingsOf({ policies: '5/10s', pattern: 'log' }), log);
      const decisions = await decisionsOf(['5/10s'], log.requests);
      expect(lanes[0]!.counts.denied)
        .to.equal(decisions.filter(({ allowed }) => !allowed).length)
        .and.above(0);
      expect(() => read('a.txt', 'nothing\n')).to.throw('a.txt has no request that can be read');
    });

    it('the worst window, by counting', () => {
      const starts = [0, 1, 9, 10, 11, 30];
      expect(inWindow(starts, 10)).to.deep.equal([1, 2, 3, 3, 3, 1]);
      expect(starts.map((end) => inWindowAt(starts, end, 10))).to.deep.equal([1, 2, 3, 3, 3, 1]);
      expect([-1, 19, 20, 100].map((end) => inWindowAt(starts, end, 10))).to.deep.equal([0, 2, 1, 0]);
    });
  });

  it('a link keeps every setting, and no broken one', () => {
    const settings: Settings = {
      ...{ policies: '#1\n5/1s & more', pattern: 'tenants', rate: 2.5, seconds: 7, takes: 9 },
      ...{ ban: '5 in 1m for 10m', wait: '3s', compare: [] },
    };
    expect(fromLink(`#${toLink(settings)}`)).to.deep.equal(settings);
    expect(toLink(DEFAULTS)).to.equal('');
    expect(fromLink('#pattern=none&rate=-1&seconds=x&compare=gcra,none')).to.deep.equal({
      ...DEFAULTS,
      compare: ['gcra'],
    });
  });

  it('an invalid setting is refused with the text of the package', async () => {
    const failed = async (change: Partial<Settings>): Promise<string> =>
      core.simulate(settingsOf(change)).then(
        () => 'no error',
        ({ message }: Error) => message,
      );
    const messageOf = (run: () => unknown): string => {
      try {
        run();
        return 'no error';
      } catch (error) {
        return (error as Error).message;
      }
    };
    for (const text of ['10', '10/x', 'token-buckt 10/1s'])
      expect(await failed({ policies: text }))
        .to.equal(messageOf(() => parsePolicy(text)))
        .and.include(text.slice(0, 4));
    expect(await failed({ ban: 'soon' })).to.include("Write it like '5 in 1m for 10m'");
    expect(await failed({ rate: 1e6 })).to.include('at most 50000');
  });

  it('the code to copy has the settings', () => {
    const code = core.codeOf(
      settingsOf({ policies: '10/1s\n60/10s share tenant', ban: '5 in 1m for 2m', wait: '3s' }),
    );
    for (const part of [
      `'10/1s', '60/10s share tenant'`,
      'tenant: (req) => req.user?.tenant,',
      `for: '2m'`,
      `wait: '3s'`,
    ])
      expect(code).to.include(part);
  });
});
