// The alert rules and the dashboard of examples/observability in a real Prometheus, which scrapes an app.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import ts from 'typescript';
import manifest from '../../package.json' with { type: 'json' };
import { findProgram } from '../../scripts/programs.mjs';
import { ATTRIBUTES } from '../../src/telemetry/metrics.js';
import { startServer, watch, type TestServer } from '../support/servers.js';

const directory = new URL('../../examples/observability/', import.meta.url).pathname;
const rules = readFileSync(join(directory, 'alerts.yml'), 'utf8');
const dashboard = JSON.parse(readFileSync(join(directory, 'dashboard.json'), 'utf8')) as Dashboard;

interface Dashboard {
  readonly schemaVersion: number;
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { expr: string }[] }[];
}

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [at: number, value: string];
}

interface Alert {
  readonly state: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The expressions of the dashboard, by panel, with Grafana's variables filled in. */
const expressions = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({
    title,
    expr: expr.replaceAll('$limiter', '.*').replaceAll('$__rate_interval', '5s'),
  })),
);

/** The same rules with short windows, and without waiting before an alert fires. */
const quick = rules.replace(/^( +for:) \w+$/gm, '$1 0s').replace(/\[\d+m\]/g, '[5s]');

const alertNames = [...rules.matchAll(/alert: (\w+)/g)].map(([, name]) => name!);

const labels = Object.values(ATTRIBUTES).map((name) => name.replaceAll('.', '_'));

/** The metrics that an expression names. */
const metricsOf = (text: string): string[] =>
  [...new Set(text.match(/\bheadgate_\w+/g))].filter((name) => !labels.includes(name));

for (const library of ['opentelemetry', 'prom-client'])
  describe(`Prometheus: ${library}`, function () {
    // The tests wait for scrapes, and the machine may be busy.
    this.timeout(120_000);
    let dir: string;
    let redis: TestServer;
    const children: ChildProcess[] = [];
    let api: string;

    /** Starts a program, and resolves with the address in the program's output. */
    async function start(command: string, args: readonly string[], listens: RegExp): Promise<string> {
      const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
      watch(child);
      children.push(child);
      let output = '';
      return new Promise((resolve, reject) => {
        for (const stream of [child.stdout, child.stderr])
          stream.setEncoding('utf8').on('data', (text: string) => {
            output = (output + text).slice(-10_000);
            const found = listens.exec(output)?.[1];
            if (found !== undefined) resolve(found);
          });
        child.once('error', reject);
        child.once('exit', (code) => reject(new Error(`${command} has ended (${code}): ${output}`)));
      });
    }

    async function get<T>(path: string): Promise<T> {
      const response = await fetch(`http://${api}/api/v1/${path}`);
      const { data, error } = (await response.json()) as { data: T; error?: string };
      if (error !== undefined) throw new Error(`${path}: ${error}`);
      return data;
    }

    const query = async (expr: string): Promise<readonly Series[]> =>
      (await get<{ result: readonly Series[] }>(`query?query=${encodeURIComponent(expr)}`)).result;

    async function firing(): Promise<readonly Alert[]> {
      const { alerts } = await get<{ alerts: readonly Alert[] }>('alerts');
      return alerts.filter(({ state }) => state === 'firing');
    }

    /** Repeats `missing` until its result is empty. The test fails with the last result when its time is over. */
    async function until(missing: () => Promise<readonly string[]>): Promise<void> {
      const end = Date.now() + 50_000;
      for (;;) {
        const left = await missing();
        if (left.length === 0) return;
        if (Date.now() > end) expect.fail(`Still missing: ${left.join('; ')}`);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    }

    const withoutSeries = async (all: readonly string[]): Promise<string[]> => {
      const found = await Promise.all(all.map(query));
      return all.filter((_, i) => found[i]!.length === 0);
    };

    before(async () => {
      dir = mkdtempSync(join(tmpdir(), 'headgate-prometheus-'));
      redis = await startServer('redis');
      const child = new URL('../support/metrics-child.ts', import.meta.url).pathname;
      const tsx = import.meta.resolve('tsx');
      const metrics = new URL(
        await start(process.execPath, ['--import', tsx, child, String(redis.port), library], /(http:\S+)/),
      );
      writeFileSync(join(dir, 'alerts.yml'), quick);
      const config = {
        global: { scrape_interval: '250ms', scrape_timeout: '250ms', evaluation_interval: '250ms' },
        rule_files: ['alerts.yml'],
        scrape_configs: [
          { job_name: 'app', metrics_path: metrics.pathname, static_configs: [{ targets: [metrics.host] }] },
        ],
      };
      // Prometheus reads YAML, which includes JSON.
      writeFileSync(join(dir, 'prometheus.yml'), JSON.stringify(config));
      const args = [
        `--config.file=${join(dir, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(dir, 'data')}`,
      ];
      api = await start(
        findProgram('prometheus'),
        [...args, '--web.listen-address=127.0.0.1:0'],
        /Listening on"? address=(127\.0\.0\.1:\d+)/,
      );
      // Prometheus listens before it is ready.
      await until(async () => {
        const { ok } = await fetch(`http://${api}/-/ready`).catch(() => ({ ok: false }));
        return ok ? [] : ['ready'];
      });
    });
    after(async () => {
      for (const child of children) {
        const gone = child.exitCode === null ? once(child, 'exit') : undefined;
        child.kill('SIGKILL');
        await gone;
      }
      await redis.stop();
      rmSync(dir, { recursive: true, force: true });
    });

    it('accepts the rules unchanged', () => {
      const promtool = join(dirname(findProgram('prometheus')), 'promtool');
      const output = execFileSync(promtool, ['check', 'rules', 'alerts.yml'], {
        cwd: directory,
        encoding: 'utf8',
      });
      expect(output).to.contain(`SUCCESS: ${alertNames.length} rules found`);
    });

    it('has a series for each metric that a rule or a panel names, and no metric is left out', async () => {
      const named = metricsOf(rules + JSON.stringify(dashboard));
      await until(() => withoutSeries(named));
      const all = await get<readonly string[]>('label/__name__/values');
      const families = (names: readonly string[]) => [
        ...new Set(names.filter((name) => name.startsWith('headgate_')).map(familyOf)),
      ];
      expect(families(named)).to.have.members(families(all));
    });

    it('fires HeadgateStoreDown after Redis has stopped, and not before', async () => {
      const storesDown = async () =>
        (await firing())
          .filter(({ labels }) => labels['alertname'] === 'HeadgateStoreDown')
          .map(({ labels }) => labels['headgate_limiter']);
      expect(await storesDown()).to.deep.equal([]);
      await redis.stop();
      await until(async () => ((await storesDown()).includes('api') ? [] : ['HeadgateStoreDown']));
      expect(await storesDown()).to.deep.equal(['api']);
    });

    it('has data for each panel', async () => {
      await until(async () => {
        const empty = await withoutSeries(expressions.map(({ expr }) => expr));
        return expressions.flatMap(({ title, expr }) => (empty.includes(expr) ? `${title}: ${expr}` : []));
      });
    });

    it('fires the other alerts in their situations', async () => {
      // On a busy machine, rounds of the app are so long that not all alerts fire at the same moment.
      const seen = new Map<string | undefined, Alert>();
      await until(async () => {
        for (const alert of await firing()) seen.set(alert.labels['alertname'], alert);
        return alertNames.filter((name) => !seen.has(name) && name !== 'HeadgateProcessLate');
      });
      for (const { annotations } of seen.values())
        for (const text of Object.values(annotations))
          expect(text).to.not.contain('error').and.not.contain('{{');
    });

    it('resolves the alert once Redis is back, and fires HeadgateProcessLate', async () => {
      redis = await startServer('redis', { port: redis.port });
      await until(async () => {
        const names = (await firing()).map(({ labels }) => labels['alertname']);
        return [
          ...(names.includes('HeadgateStoreDown') ? ['the end of HeadgateStoreDown'] : []),
          ...(names.includes('HeadgateProcessLate') ? [] : ['HeadgateProcessLate']),
        ];
      });
    });
  });

describe('the alerts of single situations, by promtool', () => {
  const series = (name: string, labels: string, values: string) => ({
    series: `${name}{job="app",instance="a",${labels}}`,
    values,
  });
  const api = 'headgate_limiter="api"';
  /** 0.2 s for 2 % of the answers, and 2 ms for the others, 100 a minute. */
  const slow = [
    ['0.0025', 98],
    ['0.25', 100],
    ['+Inf', 100],
  ].map(([le, count]) => series('headgate_store_duration_bucket', `${api},le="${le}"`, `0+${count}x2000`));
  const quick = [
    ['0.0025', 100],
    ['0.25', 100],
    ['+Inf', 100],
  ].map(([le, count]) => series('headgate_store_duration_bucket', `${api},le="${le}"`, `0+${count}x2000`));
  const gauge = (name: string, value: number) => series(name, api, `${value}x2000`);
  const bans = (perMinute: number) =>
    series('headgate_bans_total', `${api},headgate_automatic="true"`, `0+${perMinute}x2000`);
  const cases: Record<string, readonly [at: string, series: readonly object[], fires: boolean][]> = {
    HeadgateStoreSlow: [
      ['20m', slow, true],
      ['20m', quick, false],
      ['3m', slow, false],
    ],
    HeadgateSlotsExhausted: [
      ['10m', [gauge('headgate_queue_waiting', 3), gauge('headgate_slots_used', 5)], true],
      ['10m', [gauge('headgate_queue_waiting', 0), gauge('headgate_slots_used', 5)], false],
      ['10m', [gauge('headgate_queue_waiting', 3), gauge('headgate_slots_used', 0)], false],
    ],
    HeadgateBanSurge: [
      ['30m', [bans(12)], true],
      ['30m', [bans(3)], false],
    ],
    HeadgateOverrideForgotten: [
      ['25h', [gauge('headgate_overrides_active', 1)], true],
      // The workers of a cluster, added up.
      ['25h', [gauge('headgate_overrides_active', 4)], true],
      ['23h', [gauge('headgate_overrides_active', 1)], false],
      ['25h', [gauge('headgate_overrides_active', 0)], false],
    ],
  };
  for (const [name, situations] of Object.entries(cases))
    it(name, function () {
      this.timeout(60_000);
      const promtool = join(dirname(findProgram('prometheus')), 'promtool');
      const dir = mkdtempSync(join(tmpdir(), 'headgate-promtool-'));
      try {
        for (const [i, [at, input, fires]] of situations.entries()) {
          // The labels of an alert are those of its expression, and its severity.
          const severity = new RegExp(`alert: ${name}\\n[^]*?severity: (\\w+)`).exec(rules)![1]!;
          const test = {
            rule_files: [join(directory, 'alerts.yml')],
            evaluation_interval: '1m',
            tests: [
              {
                ...{ interval: '1m', input_series: input },
                // Only whether it fires: the annotations are compared by the scrape of an app.
                promql_expr_test: [
                  {
                    expr: `count by (job, headgate_limiter, severity) (ALERTS{alertname="${name}",alertstate="firing"})`,
                    eval_time: at,
                    exp_samples: fires
                      ? [
                          {
                            labels: `{job="app",headgate_limiter="api",severity="${severity}"}`,
                            value: 1,
                          },
                        ]
                      : [],
                  },
                ],
              },
            ],
          };
          const file = join(dir, `${i}.yml`);
          writeFileSync(file, JSON.stringify(test));
          const output = execFileSync(promtool, ['test', 'rules', file], { encoding: 'utf8', stdio: 'pipe' });
          expect(output).to.contain('SUCCESS');
        }
      } finally {
        rmSync(dir, { recursive: true, force: true });
      }
    });
});

describe('the dashboard', () => {
  it('has the types of the newest Grafana schema', function () {
    this.timeout(60_000);
    const file = new URL('dashboard-of-this-test.ts', import.meta.url).pathname;
    // A string is not assignable to an enum.
    const literal = JSON.stringify(dashboard).replaceAll('"type":"value"', '"type":MappingType.ValueToText');
    const code = `import { MappingType, type Dashboard } from '@grafana/schema';
      export const dashboard: Dashboard = ${literal};`;
    const options: ts.CompilerOptions = {
      ...{ strict: true, noEmit: true, skipLibCheck: true, types: [] },
      ...{ module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
    };
    const host = ts.createCompilerHost(options);
    const { getSourceFile, fileExists } = host;
    host.fileExists = (name) => name === file || fileExists(name);
    host.getSourceFile = (name, target, ...rest) =>
      name === file ? ts.createSourceFile(name, code, target) : getSourceFile(name, target, ...rest);
    const problems = ts.getPreEmitDiagnostics(ts.createProgram([file], options, host));
    expect(
      problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
    ).to.deep.equal([]);
    const { defaultDashboard } = createRequire(import.meta.url)('@grafana/schema') as {
      defaultDashboard: Dashboard;
    };
    expect(dashboard.schemaVersion).to.equal(defaultDashboard.schemaVersion);
  });

  it('and the alert rules are part of the package', () => {
    expect(manifest.files).to.include('examples/observability');
  });
});

/** A metric's name without the suffix of a histogram's series. */
function familyOf(name: string): string {
  return name.replace(/_(bucket|sum|count)$/, '');
}
