// The runbook in docs/incident.md runs as printed, line by line, on a site with a banned client and full limits.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { createLimiter, type Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { root } from '../../../../scripts/lib/run.mjs';
import { servers } from '../../../../test/support/shared-servers.js';
import { clients } from '../../../../test/support/stores.js';
import { headgate, told } from '../cli.js';
import { compileProgram } from '../program.js';

const execute = promisify(execFile);
const page = readFileSync(join(root, 'docs/incident.md'), 'utf8');
const lines = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block]) => block!.trim().split('\n'));

/** The answers of the commands that look, each by a part of its line. */
const ANSWERS: readonly (readonly [line: string, answer: RegExp])[] = [
  ['key 203.0.113.7   ', /denied \(banned\).*banned by ada: a mistake/],
  ['list --name api', /192\.0\.2\.66 +limited/],
  ['top --name api', /192\.0\.2\.66/],
  ['limits', /api[^]*llm[^]*slow/],
  ['list --all', /customer:42/],
  ['top --name slow', /1 slots? in use/],
  ['tenants', /acme/],
  ['log --since', /ada[^]*a mistake/],
  ['list --banned', /203\.0\.113\.7/],
  ['overrides', /203\.0\.113\.7/],
];
const { directory, file } = await compileProgram();

/** Runs a line in a service's directory. `npx` runs the command line, compiled from the sources. */
async function run(line: string): Promise<{ code: number; output: string }> {
  const program = `"${process.execPath}" "${file}"`;
  const npx = `npx() { [ "$1" = headgate-cli ] || exit 9; shift; ${program} "$@"; }`;
  const env = { ...process.env, REDIS_URL: servers.redis.url };
  return execute('bash', ['-c', `set -o pipefail; ${npx}; ${line}`], { cwd: directory, env }).then(
    ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
    ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
      ...{ code, output: stdout + stderr },
    }),
  );
}

describe('the runbook in docs/incident.md', function () {
  this.timeout(60_000);
  const limiters: Limiter[] = [];
  let api: Limiter;
  const where = ['--redis', servers.redis.url];

  before(async () => {
    writeFileSync(join(directory, 'access.log'), '192.0.2.66 - - "GET /evil"\n192.0.2.67 - - "GET /"\n');
    const store = redisStore(clients.redis, { counts: true, localDenials: false, publish: '20ms' });
    const common = { store, ban: {}, overrides: true };
    api = createLimiter({ ...common, name: 'api', limit: 2, window: '1h' });
    const slow = createLimiter({ ...common, name: 'slow', algorithm: 'concurrency', limit: 1, lease: '1h' });
    const llm = createLimiter({ ...common, name: 'llm', policies: '9/1h by provider share tenant' });
    limiters.push(api, slow, llm);
    for (let i = 0; i < 4; i++) await api.consume('203.0.113.7');
    await api.ban('203.0.113.7', '1h', { by: 'ada', reason: 'a mistake' });
    await slow.consume('customer:42');
    await llm.consume({ provider: 'openai', tenant: 'acme' });
    await told(where, 'api', 'slow', 'llm');
  });
  after(async () => {
    for (const limiter of limiters) await limiter.close();
  });

  it('begins with the server, and has commands for each symptom', () => {
    expect(lines[0]).to.match(/^export REDIS_URL=/);
    expect(lines.filter((line) => line.includes('npx headgate-cli')).length).to.be.greaterThan(20);
  });

  for (const line of lines.slice(1))
    it(line.replace(/ +#.*/, ''), async () => {
      // `top` is live until Ctrl-C ends it.
      let command = line.replace(' top ', ' top --once ');
      if (line.includes('--undo')) {
        const { stdout } = await headgate(['log', '--json', ...where]);
        const changes = stdout
          .trim()
          .split('\n')
          .map((entry) => JSON.parse(entry) as { id: string; action: string });
        // The latest change comes first. Later lines of the runbook have changed what older ones did, and a reset cannot be undone.
        const { id } = changes.find(({ action }) => action !== 'reset')!;
        command = line.replace(/\d+-\d+/, id);
      }
      // An attack goes on until the runbook bans it.
      for (let i = 0; i < 4; i++) await api.consume('192.0.2.66');
      const { code, output } = await run(command);
      // 3: `key` reports a denial.
      expect([0, ...(/ key /.test(line) ? [3] : [])], output).to.include(code);
      const answers = ANSWERS.filter(([part]) => line.includes(part));
      for (const [, answer] of answers) expect(output).to.match(answer);
    });
});
