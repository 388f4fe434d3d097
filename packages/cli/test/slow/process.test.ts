// The command line as a process: pipes, colours, its end.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { userInfo } from 'node:os';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { root } from '../../../../scripts/lib/run.mjs';
import { servers } from '../../../../test/support/shared-servers.js';
import { startServer } from '../../../../test/support/servers.js';
import { clients, freshPrefix, limiterOn } from '../../../../test/support/stores.js';
import { headgate } from '../cli.js';
import { compileProgram } from '../program.js';

const execute = promisify(execFile);
const { file } = await compileProgram();
const program = `"${process.execPath}" "${file}"`;

/** Runs a line of shell in which `headgate` is the command line. */
async function shell(line: string, env: Record<string, string> = {}) {
  const all = { ...process.env, REDIS_URL: servers.redis.url, ...env };
  return execute('bash', ['-c', `set -o pipefail; headgate() { ${program} "$@"; }; ${line}`], {
    cwd: root,
    env: all,
  });
}

describe('the process', function () {
  this.timeout(60_000);
  const prefix = freshPrefix();

  before(async () => {
    const limiter = limiterOn(redisStore(clients.redis, { prefix }), { name: 'api', limit: 1, window: '1h' });
    await Promise.all(Array.from({ length: 3000 }, (_, i) => limiter.consume(`user:${i}`)));
    await limiter.close();
  });

  it('ends quietly when its reader has had enough', async () => {
    const { stdout, stderr } = await shell(`headgate list --json --prefix ${prefix} | head -n 2`);
    expect(stdout.trim().split('\n')).to.have.length(2);
    expect(stderr).to.equal('');
  });

  it('goes on when nobody reads what it says', async () => {
    const { stdout } = await shell(
      `headgate unban nobody --name nope --prefix ${prefix} 2> >(exec <&-); echo $?`,
    );
    expect(stdout).to.equal(
      'There was no ban of nobody in nope, so nothing was changed. `headgate list --banned` lists the banned keys.\n5\n',
    );
  });

  it('writes all of it to a pipe, and its exit code tells the outcome', async () => {
    const peek = `headgate peek user:1 --name api --policy 1/1h --prefix ${prefix}`;
    const { stdout } = await shell(
      `headgate list --json --prefix ${prefix} | wc -l; ${peek} >/dev/null; echo $?; headgate pek 2>/dev/null; echo $?`,
    );
    expect(stdout.split(/\s+/)).to.deep.equal(['3000', '3', '2', '']);
    // Even if nobody reads it: a script must not take a denial for an admission.
    const unread = await shell(`${peek} > >(exec <&-); echo $?`);
    expect(unread.stdout).to.equal('3\n');
  });

  it('says why it could not write', async () => {
    const { stdout } = await shell(
      `headgate list --json --prefix ${prefix} 2>&1 >/dev/full; echo $?; headgate check 2>&1 >/dev/full; echo $?`,
    );
    const line = 'The output could not be written: .*ENOSPC.*\n1\n';
    expect(stdout).to.match(new RegExp(`^${line}${line}$`));
  });

  it('the one who bans is the user of the system, even if no variable names the user', async () => {
    const ban = `headgate ban a 1h --name api --force --json --prefix ${prefix}`;
    const { stdout } = await shell(`unset HEADGATE_BY SUDO_USER USER; ${ban} 2>/dev/null`);
    expect(JSON.parse(stdout)).to.include({ by: userInfo().username });
  });

  it('Ctrl-C ends a list, and keeps its lines', async () => {
    const args = [file, 'list', '--json', '--count', '1'];
    const child = spawn(process.execPath, [...args, '--prefix', prefix, '--redis', servers.redis.url], {
      cwd: root,
    });
    const written = Promise.all([text(child.stdout), text(child.stderr)]);
    child.stdout.once('data', () => child.kill('SIGINT'));
    const [code] = (await once(child, 'close')) as [number];
    const [lines, said] = await written;
    expect(code).to.equal(130);
    expect(JSON.parse(said)).to.have.property('code', 'INTERRUPTED');
    const found = lines
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(found).to.have.length.within(1, 2999);
  });

  it('has no colours unless someone sees them', async () => {
    const list = `headgate list --prefix ${prefix} --limit 1`;
    expect((await shell(list, { FORCE_COLOR: '' })).stdout).to.not.contain('\u001b');
    expect((await shell(list, { FORCE_COLOR: '1' })).stdout).to.contain('\u001b');
    expect((await shell(list, { FORCE_COLOR: '1', NO_COLOR: '1' })).stdout).to.not.contain('\u001b');
  });
});

describe('--sentinel', function () {
  this.timeout(30_000);

  it('asks a sentinel for the primary', async () => {
    const primary = await startServer('redis');
    const config = `sentinel monitor main 127.0.0.1 ${primary.port} 1`;
    const sentinel = await startServer('redis', { config, args: ['--sentinel'] });
    try {
      const where = ['--name', 'n', '--redis', sentinel.url, '--sentinel'];
      expect(await headgate(['ban', 'a', '1m', '--force', ...where, 'main'])).to.include({ code: 0 });
      const found = await headgate(['list', '--redis', primary.url]);
      expect(found.stdout).to.match(/^a +banned/m);
      const { code, stderr } = await headgate(['ban', 'a', '1m', ...where, 'other', '--timeout', '1s']);
      expect(stderr).to.match(
        /^headgate: redis:\/\/127.0.0.1:\d+ cannot be reached: All sentinels are unreachable/,
      );
      expect(code).to.equal(4);
    } finally {
      await sentinel.stop();
      await primary.stop();
    }
  });
});
