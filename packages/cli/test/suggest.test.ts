import { appendFileSync, renameSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import fc from 'fast-check';
import type { Policy } from 'headgate';
import { parsePolicies } from '../src/policy-text.js';
import { excludable, Measure } from '../src/replay/measure.js';
import { Replay } from '../src/replay/replay.js';
import { MEASURED } from '../src/replay/policies.js';
import { shapeOf, shapesOf } from '../src/replay/shapes.js';
import { Check, suggest } from '../src/replay/suggest.js';
import { policyOf } from '../../../test/support/policies.js';
import { runs } from '../../../test/support/random.js';
import { headgate } from './cli.js';
import { jsonLine, LogDirectory, trace, watching, type LoggedRequest } from './logs.js';

function measured(requests: readonly LoggedRequest[], policies: readonly Policy[]) {
  const measure = new Measure(policies.map(shapeOf));
  for (const { ip, time } of requests) measure.add(ip, time);
  return measure;
}

/** The numbers of clients and requests that policies deny. */
function denied(requests: readonly LoggedRequest[], ...policies: readonly Policy[]) {
  const run = new Replay(policies);
  for (const { ip, time } of requests) run.add(ip, time);
  const { deniedClients, denied: deniedRequests } = run.result(0);
  return { deniedClients, deniedRequests };
}

/** The next tighter policy; undefined if there is none. */
function tighter(policy: Policy): Policy | undefined {
  const burst = 'burst' in policy ? policy.burst : undefined;
  if (burst !== undefined) return burst > 1 ? ({ ...policy, burst: burst - 1 } as Policy) : undefined;
  return policy.limit > 1 ? { ...policy, limit: policy.limit - 1 } : undefined;
}

const windows = [1000, 1500, 10_000, 60_000, 3_600_000];

describe('suggested limits', () => {
  for (const algorithm of MEASURED) {
    it(`${algorithm}: keep the share of clients, and one less does not`, () =>
      fc.assert(
        fc.property(
          policyOf(algorithm, { windows }),
          fc.nat({ max: 1e6 }),
          fc.constantFrom(50, 90, 99, 100),
          (policy, seed, keep) => {
            const requests = trace(seed, 300);
            const measure = measured(requests, [policy]);
            const [found] = suggest(measure, keep).each;
            const chosen = found!.alternatives.find((alternative) => alternative.keep === keep)!;
            const most = excludable(measure.clients, keep);
            const { deniedClients } = denied(requests, chosen.policy);
            expect(deniedClients).to.be.at.most(most).and.to.equal(chosen.deniedClients);
            const less = tighter(chosen.policy);
            if (less) expect(denied(requests, less).deniedClients).to.be.greaterThan(most);
          },
        ),
        runs('memory', 60, 0),
      ));
  }

  it('several together keep the share, and their denials are counted', () =>
    fc.assert(
      fc.property(
        fc.array(
          fc.constantFrom(...MEASURED).chain((algorithm) => policyOf(algorithm, { windows })),
          { minLength: 1, maxLength: 4 },
        ),
        fc.nat({ max: 1e6 }),
        fc.constantFrom(50, 80, 90, 95, 100),
        (policies, seed, keep) => {
          const requests = trace(seed, 300);
          const measure = measured(requests, policies);
          const suggestions = suggest(measure, keep);
          const check = new Check(suggestions);
          for (const { ip, time } of requests) check.add(ip, time);
          check.finish();
          const { together, each } = suggestions;
          expect(denied(requests, ...together.policies)).to.deep.equal({
            deniedClients: together.deniedClients,
            deniedRequests: together.deniedRequests,
          });
          expect(together.deniedClients).to.be.at.most(excludable(measure.clients, keep));
          for (const { policy, deniedClients, deniedRequests } of each.flatMap(
            ({ alternatives }) => alternatives,
          )) {
            expect(denied(requests, policy)).to.deep.equal({ deniedClients, deniedRequests });
          }
        },
      ),
      runs('memory', 60, 0),
    ));

  it('omits policies that another one implies', () => {
    // Ten at once, never again within the hour: the longest window alone is enough.
    const requests = Array.from({ length: 10 }, (_, i) => ({
      time: Date.UTC(2026, 9, 5) + i,
      ip: '10.0.0.1',
    }));
    const measure = measured(requests, parsePolicies(['1/1s', '1/1m', '1/1h']));
    const { together, each } = suggest(measure, 100);
    expect(each.map(({ alternatives }) => alternatives[0]!.policy.limit)).to.deep.equal([10, 10, 10]);
    expect(together.policies).to.deep.equal([{ name: '1h', limit: 10, window: '1h' }]);
    // One a second, for ever: the shortest does.
    const steady = Array.from({ length: 100 }, (_, i) => ({ time: 1e12 + i * 1000, ip: '10.0.0.1' }));
    const log = measured(steady, parsePolicies(['sliding-log 1/1s', 'sliding-log 1/10s']));
    expect(suggest(log, 100).together.policies.map(({ limit }) => limit)).to.deep.equal([1]);
    // The bound of a bucket implies nothing about a window, and the other way round.
    for (const policies of [
      ['1/1s', 'token-bucket 1/1h'],
      ['1/1h', 'token-bucket 1/1s'],
    ]) {
      const mixed = measured(requests, parsePolicies(policies));
      expect(suggest(mixed, 100).together.policies).to.have.length(2);
    }
  });

  it('of buckets: the lowest rate whose burst is no more than a window', () => {
    const shapes = shapesOf('token-bucket', ['1s']);
    // So many at once, each second.
    for (const [burst, limit] of [
      [6, 10],
      [1, 1],
    ] as const) {
      const measure = new Measure(shapes);
      for (let i = 0; i < 100 * burst; i++) measure.add('a', 1e12 + 1000 * Math.floor(i / burst));
      const { each } = suggest(measure, 99);
      expect(each).to.have.length(1);
      const { policy } = each[0]!.alternatives[0]!;
      expect(policy).to.deep.equal({ algorithm: 'token-bucket', limit, window: '1s', burst });
    }
  });

  it('a client that uses more than can be counted does not count as kept', () => {
    const requests = Array.from({ length: 75_000 }, () => ({ time: 1e12, ip: '10.0.0.1' }));
    const measure = measured(requests, parsePolicies(['gcra 1/366d']));
    const { each } = suggest(measure, 100);
    expect(each[0]!.alternatives.at(-1)).to.deep.include({ keep: 100, deniedClients: 1 });
  });

  it('shares of clients are rounded in their favour, whatever a binary fraction is', () => {
    const cases = [
      [1000, 99.9, 1],
      [1000, 99.8, 2],
      [999, 99.9, 0],
      [10, 100, 0],
      [10, 1e-9, 9],
      [1, 50, 0],
      [3000, 99.9, 3],
    ];
    for (const [clients, keep, most] of cases)
      expect(excludable(clients!, keep!), `${clients}, ${keep}`).to.equal(most);
  });
});

describe('headgate suggest', () => {
  let logs: LogDirectory;
  beforeEach(() => (logs = new LogDirectory()));
  afterEach(() => logs.remove());
  const run = (args: readonly string[], stdin = '') =>
    headgate(args, { cwd: logs.path, stdin: Readable.from([Buffer.from(stdin)]) });

  const requests = trace(11, 4000);
  const lines = requests.map(jsonLine);

  it('prints policies to paste, and a command that checks them', async () => {
    logs.gzip('my log.gz', lines);
    const { code, stdout } = await run(['suggest', '--keep', '90', 'my log.gz']);
    expect(code).to.equal(0);
    const found =
      /All together, for 90 % of the clients: (\d+) clients? \(.*\) would be denied ([\d,]+) requests/.exec(
        stdout,
      );
    expect(Number(found?.[1]), stdout).to.be.within(1, 2);
    for (const kept of ['90 %', '99 %', '99.9 %', '100 %']) expect(stdout).to.contain(`\n${kept} `);

    const array = /^policies: (\[[^]*?^\])$/m.exec(stdout)![1]!;
    const policies = runInNewContext(array) as Policy[];
    const command = /^ {2}headgate (replay .*)$/m.exec(stdout)![1]!;
    const words = [...command.matchAll(/'([^']*)'|\S+/g)].map(([word, quoted]) => quoted ?? word);
    expect(words).to.include('my log.gz');
    const checked = await run([...words, '--json']);
    const result = JSON.parse(checked.stdout) as { deniedClients: number; denied: number };
    expect(result.deniedClients).to.equal(Number(found![1]));
    expect(result.denied.toLocaleString('en-US')).to.equal(found![2]);
    expect(denied(requests, ...policies)).to.deep.equal({
      deniedClients: result.deniedClients,
      deniedRequests: result.denied,
    });
  });

  it('a quote in the name of a policy ends neither the word of a shell nor a text', async () => {
    logs.write('a.log', lines);
    const { stdout } = await run(['suggest', '--policy', "it's=1/1m", 'a.log']);
    const array = /^policies: (\[[^]*?^\])$/m.exec(stdout)![1]!;
    expect((runInNewContext(array) as Policy[])[0]).to.include({ name: "it's" });
    expect(stdout).to.match(/--policy 'it'\\''s=\d+\/1m'$/m);
  });

  it('keeps the options that define a request', async () => {
    const withParts = requests.map((request) =>
      JSON.stringify({ ...request, where: '/', verb: 'GET', code: 200 }),
    );
    logs.write('a.log', withParts);
    const args = ['--key', 'ip', '--key-field', 'ip', '--time-field', 'time', '--match', "!/it's", 'a.log'];
    args.push('--trusted-hops', '2', '--ipv6-subnet', '64');
    args.push('--path-field', 'where', '--method-field', 'verb', '--status-field', 'code');
    const { stdout } = await run(['suggest', ...args]);
    expect(stdout).to.contain(
      `headgate replay a.log --key ip --key-field ip --time-field time --path-field where --status-field code --method-field verb --trusted-hops 2 --match '!/it'\\''s' --ipv6-subnet 64 --policy '1s=`,
    );
  });

  it('for programs', async () => {
    logs.write('a.log', lines);
    const { stdout } = await run([
      'suggest',
      '--json',
      '--window',
      '1s,1m',
      '--algorithm',
      'fixed-window',
      'a.log',
    ]);
    const found = JSON.parse(stdout) as {
      windows: {
        windowMs: number;
        alternatives: { keep: number; policy: Policy; deniedRequests: number }[];
      }[];
      together: { policies: Policy[] };
    };
    expect(found).to.deep.include({ keep: 99.9, requests: 4000, clients: 20 });
    expect(found.windows.map(({ windowMs }) => windowMs)).to.deep.equal([1000, 60_000]);
    expect(found.windows[0]!.alternatives.map(({ keep }) => keep)).to.deep.equal([99, 99.9, 100]);
    expect(found.windows[0]!.alternatives[0]!.policy.algorithm).to.equal('fixed-window');
    expect(found.together.policies[0]).to.deep.include({ algorithm: 'fixed-window', window: '1s' });
  });

  describe('with fewer clients than the share can leave out', () => {
    /** A log of clients, each with one request a second up to the client's count. */
    const logOf = (counts: Record<string, number>) =>
      Object.entries(counts)
        .flatMap(([ip, n]) => Array.from({ length: n }, (_, i) => ({ ip, time: 1e12 + 1000 * i })))
        .sort((a, b) => a.time - b.time)
        .map((each) => jsonLine(each as LoggedRequest));
    const usual = Object.fromEntries(Array.from({ length: 38 }, (_, i) => [`10.0.0.${i + 1}`, 5 + (i % 6)]));
    const suggested = async (counts: Record<string, number>, ...args: string[]) => {
      logs.write('a.log', logOf(counts));
      const { stdout } = await run(['suggest', '--window', '1h', '--json', ...args, 'a.log']);
      return JSON.parse(stdout) as {
        together: { policies: Policy[] };
        outliers: { clients: string[]; policies: Policy[] } | null;
      };
    };

    it('names the outliers, and proposes limits that deny only them', async () => {
      const { together, outliers } = await suggested({ ...usual, '192.0.2.1': 900, '192.0.2.2': 300 });
      expect(together.policies[0]!.limit).to.equal(900);
      expect(outliers!.clients).to.have.members(['192.0.2.1', '192.0.2.2']);
      expect(outliers!.policies.map(({ limit }) => limit)).to.deep.equal([10]);
      const { stdout } = await run(['suggest', '--window', '1h', 'a.log']);
      expect(stdout).to.match(
        /Outliers: 99\.9 % of 40 clients are all of them.* 192\.0\.2\.1, 192\.0\.2\.2\./,
      );
      expect(stdout).to.contain("headgate replay a.log --policy '1h=10/1h'");
    });

    it('names none if all was asked for, without a gap, or if a whole group uses more', async () => {
      const counts = { ...usual, '192.0.2.1': 900 };
      expect((await suggested(counts, '--keep', '100')).outliers).to.equal(null);
      expect((await suggested({ ...usual, '192.0.2.1': 49 })).outliers).to.equal(null);
      const group = Object.fromEntries(Array.from({ length: 4 }, (_, i) => [`192.0.2.${i}`, 500]));
      expect((await suggested({ ...usual, ...group })).outliers).to.equal(null);
      expect((await suggested({ '10.0.0.1': 5, '192.0.2.1': 900 })).outliers).to.equal(null);
      expect((await suggested(counts, '--keep', '95')).outliers).to.equal(null);
    });
  });

  it('of standard input: counts denied clients, but not requests', async () => {
    const { code, stdout } = await run(['suggest', '--keep', '90', '-'], lines.join('\n'));
    expect(code).to.equal(0);
    expect(stdout)
      .to.contain('standard input')
      .and.to.match(/^90 % .* \?$/m);
    const { stdout: json } = await run(['suggest', '--keep', '90', '--json', '-'], lines.join('\n'));
    const { together } = JSON.parse(json) as { together: { deniedClients: number; deniedRequests: null } };
    expect(together.deniedRequests).to.equal(null);
    expect(together.deniedClients).to.be.greaterThan(0);
  });

  describe('of a log that changes between its two readings', () => {
    /** Runs `change` when the second reading begins. */
    async function suggested(change: () => void, ...names: string[]) {
      let changed = false;
      const stderr = watching('checking', () => {
        changed = true;
        change();
      });
      const { code, stdout } = await headgate(['suggest', '--json', '--keep', '90', ...names], {
        cwd: logs.path,
        stderr,
      });
      expect({ code, changed }).to.deep.equal({ code: 0, changed: true });
      return JSON.parse(stdout) as {
        together: { deniedClients: number; deniedRequests: number | null };
        logs: { requests: number; warning: string | null }[];
      };
    }
    const path = () => join(logs.path, 'a.log');

    it('rotated: reads the measured file again', async () => {
      logs.write('a.log', lines);
      const whole = await suggested(() => {}, 'a.log');
      expect(whole.together.deniedRequests).to.be.greaterThan(0);
      const rotated = await suggested(() => {
        renameSync(path(), `${path()}.1`);
        logs.write('a.log', lines.slice(0, 3));
      }, 'a.log');
      expect(rotated).to.deep.equal(whole);
    });

    it('grown: counts only the measured part', async () => {
      logs.write('a.log', lines);
      const whole = await suggested(() => {}, 'a.log');
      expect(await suggested(() => appendFileSync(path(), `${lines.join('\n')}\n`), 'a.log')).to.deep.equal(
        whole,
      );
    });

    it('cut off, emptied or overwritten: omits the number of requests, and warns', async () => {
      const swapped = [...lines.slice(0, 1000), ...lines.slice(1000).reverse()];
      const changes: [() => void, RegExp][] = [
        [() => truncateSync(path(), 1000), /cut off.* 1,000 of its [\d,]+ bytes/],
        [() => truncateSync(path(), 0), /cut off.* 0 of/],
        [() => void logs.write('a.log', swapped), /replaced/],
      ];
      for (const [change, says] of changes) {
        logs.write('a.log', lines);
        const { together, logs: found } = await suggested(change, 'a.log');
        expect(together.deniedClients).to.be.greaterThan(0);
        expect(together.deniedRequests).to.equal(null);
        expect(found[0]!.requests).to.equal(4000);
        expect(found[0]!.warning).to.match(says);
      }
    });
  });

  it('of a short log no longer windows, unless they are asked for', async () => {
    logs.write('a.log', lines.slice(0, 20));
    expect((await run(['suggest', 'a.log'])).stdout)
      .to.contain('/1s')
      .and.to.not.contain('/1h');
    expect((await run(['suggest', '--window', '1h', 'a.log'])).stdout).to.contain('/1h');
  });

  const wrong: [args: readonly string[], code: number, ...says: string[]][] = [
    [['--keep', '0', 'a.log'], 2, '--keep: "0" is not a share', '--keep 99.9'],
    [['--keep', '101', 'a.log'], 2, '--keep: "101"'],
    [['--keep', 'most', 'a.log'], 2, '--keep: "most"'],
    [['--window', '1x', 'a.log'], 2, '--window', '1x', "'15m'"],
    [['--window', '1s,1s', 'a.log'], 2, '--window: pass 1 to 32 different windows'],
    [['--window', ',', 'a.log'], 2, '--window: pass 1 to 32'],
    [['--window', '1s', '--policy', '1/1s', 'a.log'], 2, '--policy has its own window'],
    [['--algorithm', 'bucket', 'a.log'], 2, '--algorithm: "bucket" is not one of sliding-window'],
    [['--policy', 'concurrency 1/1s', 'a.log'], 2, 'concurrency'],
    [['--policy', '100', 'a.log'], 2, '"100" is not a quota'],
    [['b.log'], 2, 'b.log: no such file'],
    [[], 2, 'log'],
  ];
  for (const [args, code, ...says] of wrong) {
    it(`refuses ${args.join(' ') || 'nothing'}`, async () => {
      logs.write('a.log', lines);
      const found = await run(['suggest', ...args]);
      expect(found.code, found.stderr).to.equal(code);
      for (const words of says) expect(found.stderr).to.contain(words);
    });
  }
});
