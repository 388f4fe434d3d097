// Messages and exit codes of the command line for wrong options and for servers that differ from the options.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { root } from '../../../../scripts/lib/run.mjs';
import { startCluster, type TestCluster } from '../../../../test/support/cluster.js';
import { servers } from '../../../../test/support/shared-servers.js';
import { freePort, startServer, type TestServer } from '../../../../test/support/servers.js';
import { headgate } from '../cli.js';

const { url } = servers.redis;
const POLICY = ['--policy', '10/1m'];

describe('a command line that is wrong', () => {
  const cases: Record<string, { args: string[]; says: RegExp; files?: Record<string, string> }> = {
    'no command': {
      args: [],
      says: /a command is missing.*: limits, top, list, key, tenants, peek, .*\nSee: headgate --help/,
    },
    'a command that is not known': { args: ['lst'], says: /unknown command 'lst'\n\(Did you mean list\?\)/ },
    'an option that is not known': {
      args: ['list', '--baned'],
      says: /unknown option '--baned'\n\(Did you mean --banned\?\)/,
    },
    'no key': { args: ['peek'], says: /missing required argument 'key'\nSee: headgate peek --help/ },
    'two keys': { args: ['unban', 'a', 'b'], says: /too many arguments for 'unban'/ },
    'no name': { args: ['ban', 'a', '1h', '--redis', url], says: /^headgate: --name: .*--name api/ },
    'an empty name': {
      args: ['ban', 'a', '1h', '--name', '', '--redis', url],
      says: /--name: .* 1 to 256/,
    },
    'a duration that is none': {
      args: ['ban', 'a', '1x', '--name', 'n', '--redis', url],
      says: /duration: "1x" is not valid\. /,
    },
    'a ban of two years': {
      args: ['ban', 'a', '2y', '--name', 'n', '--redis', url],
      says: /duration: "2y" is not valid/,
    },
    'a ban of no time': {
      args: ['ban', 'a', '0', '--name', 'n', '--redis', url],
      says: /duration: 0 has no unit.* 0s/,
    },
    'no server': {
      args: ['list'],
      says: /--redis: .* --redis redis:\/\/127.0.0.1:6379, .*REDIS_URL/,
    },
    'no URL': { args: ['list', '--redis', 'localhost'], says: /--redis: .*URL.* redis:\/\/127/ },
    'a URL of something else': {
      args: ['list', '--redis', 'http://a'],
      says: /--redis: .* http:\/\/.* redis:\/\/127/,
    },
    'a URL without a host': { args: ['list', '--redis', 'redis://'], says: /--redis: .* host/ },
    'a URL with a path': {
      args: ['list', '--redis', 'redis://a/b'],
      says: /--redis: .* number of a database/,
    },
    'a URL with a query': { args: ['list', '--redis', 'redis://a?db=1'], says: /after "\?" or "#"/ },
    'a prefix with braces': {
      args: ['list', '--redis', url, '--prefix', 'a{'],
      says: /--prefix: .* 1 to 64 printable/,
    },
    'a timeout that is none': {
      args: ['list', '--redis', url, '--timeout', 'soon'],
      says: /--timeout: "soon"/,
    },
    'a timeout of an hour': {
      args: ['list', '--redis', url, '--timeout', '60001ms'],
      says: /--timeout: "60001ms".*1ms.*1m/,
    },
    'list --limited without limits': {
      args: ['list', '--limited', '--redis', url],
      says: /--policy: missing.*--policy '100\/1m'/,
    },
    'limits of nobody': { args: ['list', ...POLICY, '--redis', url], says: /--name: .*--name/ },
    'a policy that is none': {
      args: ['peek', 'a', '--name', 'n', '--policy', 'lots', '--redis', url],
      says: /--policy: "lots"/,
    },
    'a cost that is none': {
      args: ['peek', 'a', '--name', 'n', ...POLICY, '--cost', '-1', '--redis', url],
      says: /--cost: .* whole number/,
    },
    'a limit that is none': {
      args: ['list', '--limit', 'x', '--redis', url],
      says: /--limit: .* whole number, or 0 for all/,
    },
    'a count that is none': {
      args: ['list', '--count', '0', '--redis', url],
      says: /--count: .* whole number from 1 to 10000/,
    },
    'TLS where there is none': {
      args: ['list', '--redis', url.replace('redis:', 'rediss:'), '--timeout', '300ms'],
      says: /--redis: rediss:\/\/ is for TLS, and port \d+ of 127\.0\.0\.1 .* redis:\/\//,
    },
    'a cluster and a sentinel': {
      args: ['list', '--cluster', '--sentinel', 'x', '--redis', url],
      says: /--sentinel and --cluster: .*one of them/,
    },
    'a database of a cluster': {
      args: ['list', '--cluster', '--redis', `${url}/1`],
      says: /has only database 0/,
    },
    'policies twice': {
      args: ['peek', 'a', '--name', 'n', ...POLICY, '--policies', 'x.json', '--redis', url],
      says: /--policy and --policies: .*one of them/,
    },
    'no file': {
      args: ['peek', 'a', '--name', 'n', '--policies', 'x.json', '--redis', url],
      says: /x\.json: .*ENOENT/,
    },
    'a file that is not JSON': {
      args: ['peek', 'a', '--name', 'n', '--policies', 'x.json', '--redis', url],
      says: /x\.json: .* not JSON/,
      files: { 'x.json': '{' },
    },
    'a file of one limiter': {
      args: ['peek', 'a', '--name', 'n', '--policies', 'x.json', '--redis', url],
      says: /the options of one limiter.*"api"/,
      files: { 'x.json': '{"limit":1,"window":"1s"}' },
    },
    'a file of other limiters': {
      args: ['peek', 'a', '--name', 'n', '--policies', 'x.json', '--redis', url],
      says: /no limiter "n".* "m", "o"/,
      files: { 'x.json': '{"m":{"limit":1,"window":"1s"},"o":[{"limit":1,"window":"1s"}]}' },
    },
    'a file with a wrong policy': {
      args: ['peek', 'a', '--name', 'n', '--policies', 'x.json', '--redis', url],
      says: /x\.json: n\.limit: "1" is not valid/,
      files: { 'x.json': '{"n":[{"limit":"1","window":"1s"}]}' },
    },
    'a file with a wrong option': {
      args: ['peek', 'a', '--name', 'n', '--policies', 'x.json', '--redis', url],
      says: /Headgate calls it `window`/,
      files: { 'x.json': '{"n":{"limit":1,"windowMs":"1s"}}' },
    },
    'a file with nothing': {
      args: ['list', '--policies', 'x.json', '--redis', url],
      says: /x\.json: .* no limiters/,
      files: { 'x.json': '{}' },
    },
  };
  for (const [what, { args, says, files = {} }] of Object.entries(cases)) {
    it(`${what}: exits with 2 and says what to write`, async () => {
      const cwd = mkdtempSync(join(tmpdir(), 'headgate-cli-'));
      try {
        for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
        const { code, stdout, stderr } = await headgate(args, { cwd });
        expect(stderr)
          .to.match(says)
          .and.to.match(/^headgate: /);
        expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });

        const asJson = await headgate(['--json', ...args], { cwd });
        expect(asJson).to.include({ code: 2, stdout: '' });
        const report = JSON.parse(asJson.stderr) as { code: string; message: string };
        expect(`headgate: ${report.message}\n`).to.equal(stderr);
        expect(report.code).to.match(/^(USAGE|HEADGATE_INVALID_(OPTION|ARGUMENT)|HEADGATE_UNKNOWN_OPTION)$/);
      } finally {
        rmSync(cwd, { recursive: true });
      }
    });
  }

  it('takes a time-out of up to a minute', async () => {
    const { code, stderr } = await headgate(['list', '--redis', url, '--timeout', '1m']);
    expect(code, stderr).to.equal(0);
  });

  it('never repeats a password', async () => {
    const urls = [
      'http://u:s3cret@h',
      'redis://u:s3cret@h/x',
      'redis://u:s3cret@h:99999',
      'u:s3cret@h',
      'redis://u:s3cret%zz@h',
    ];
    for (const redis of urls) {
      const { code, stderr } = await headgate(['list', '--redis', redis]);
      expect(code).to.equal(2);
      expect(stderr).to.not.contain('s3cret');
    }
  });

  const misplaced: Record<string, { args: string[]; says: string }> = {
    'of an option that is not known': {
      args: ['list', '--reddis=redis://u:s3cret@h'],
      says: "unknown option '--reddis'\n(Did you mean --redis?)",
    },
    'that contains a quotation mark': {
      args: ['list', "--pasword=s'3'(Did you mean s3cret?)"],
      says: "unknown option '--pasword'\n",
    },
    'of a short option': { args: ['list', '-predis://u:s3cret@h'], says: "unknown option '-p'\n" },
    'of an option of the program': { args: ['--reddis=s3cret', 'list'], says: "unknown option '--reddis'" },
    'of a switch': { args: ['list', '--cluster=s3cret'], says: "unknown option '--cluster'" },
    'in place of a command': { args: ['redis://u:s3cret@h', 'list'], says: 'redis://…' },
    'beside the key': { args: ['unban', 'a', 'redis://u:s3cret@h'], says: 'too many arguments' },
  };
  for (const [what, { args, says }] of Object.entries(misplaced)) {
    it(`never repeats a value ${what}`, async () => {
      const { code, stderr } = await headgate(args);
      expect(code).to.equal(2);
      expect(stderr).to.contain(says).and.not.contain('s3cret');
    });
  }

  it('never repeats a password that a server without AUTH quotes', async () => {
    const server = await startServer('redis', { args: ['--rename-command', 'AUTH', ''] });
    const redis = server.url.replace('://', '://u:s3cret@');
    const { code, stderr } = await headgate(['list', '--redis', redis]);
    await server.stop();
    expect(code).to.equal(1);
    expect(stderr).to.contain("unknown command 'AUTH'").and.not.contain('s3cret');
  });

  it('is quoted such that a terminal shows what it is', async () => {
    const odd = '\u009b31m\u202egnp\u2028\u001b]0;x\u0007\u00ad\ud800.json';
    for (const args of [
      ['peek', 'a', '--name', 'n', '--policies', odd],
      ['peek', 'a', '--name', 'n', '--policy', odd],
      ['replay', odd, ...POLICY],
      [odd],
    ]) {
      const { stderr } = await headgate(args);
      expect(stderr).to.match(/\\u(\{9b\}|009b)31m\\u(\{202e\}|202e)gnp\\u(\{2028\}|2028)/);
      expect(stderr).to.not.match(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}](?<!\n)/u);
      const json = (await headgate(['--json', ...args])).stderr;
      expect(json).to.not.match(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}](?<!\n)/u);
      // The wrong part of a policy's text is quoted as JSON.
      const { message } = JSON.parse(json) as { message: string };
      expect(message).to.match(/(\u009b|\\u009b)31m(\u202e|\\u202e)gnp(\u2028|\\u2028)/);
    }
  });
});

describe('help and version', () => {
  it('are no failures', async () => {
    const help = await headgate(['--help']);
    expect(help).to.include({ code: 0, stderr: '' });
    for (const name of ['list', 'peek', 'reset', 'ban', 'unban']) {
      expect(help.stdout).to.match(new RegExp(`^  ${name} `, 'm'));
      expect(await headgate([name, '--help'])).to.include({ code: 0, stderr: '' });
    }
    expect((await headgate(['--version'])).stdout).to.match(/^\d+\.\d+\.\d+\n$/);
  });
});

/** A directory outside of this repository, with only the given packages installed. */
function withPackages(...names: string[]): string {
  const directory = mkdtempSync(join(tmpdir(), 'headgate-cli-'));
  mkdirSync(join(directory, 'node_modules'));
  for (const name of names)
    symlinkSync(join(root, 'node_modules', name), join(directory, 'node_modules', name));
  return directory;
}

for (const client of ['ioredis', 'iovalkey', 'redis']) {
  describe(`by ${client}`, function () {
    this.timeout(30_000);
    let cwd: string;
    let guarded: TestServer;
    let cluster: TestCluster;

    before(async () => {
      cwd = withPackages(client);
      guarded = await startServer('redis', { args: ['--requirepass', 'p@ss:w/rd?', '--databases', '4'] });
      const admin = new Redis(guarded.port, { password: 'p@ss:w/rd?' });
      await admin.call('ACL', 'SETUSER', 'reader', 'on', '>read', '~*', '+@read', '+@connection');
      admin.disconnect();
      cluster = await startCluster('redis');
    });

    after(async () => {
      await guarded.stop();
      await cluster.stop();
      rmSync(cwd, { recursive: true });
    });

    const at = (port: number, login = '', rest = '') => `redis://${login}127.0.0.1:${port}${rest}`;
    const ban = (redis: string, ...more: string[]) =>
      headgate(['ban', 'a', '1m', '--name', 'n', '--force', '--redis', redis, ...more], { cwd });
    const list = (redis: string, ...more: string[]) => headgate(['list', '--redis', redis, ...more], { cwd });

    it('a password and a database of the URL are used; the URL may come from the environment', async () => {
      const redis = at(guarded.port, `:${encodeURIComponent('p@ss:w/rd?')}@`, '/3');
      expect(await ban(redis)).to.include({ code: 0 });
      const found = await headgate(['list', '--json'], { cwd, env: { REDIS_URL: redis } });
      expect(JSON.parse(found.stdout)).to.include({ kind: 'banned', key: 'a' });
      expect((await list(redis.replace('/3', ''))).stdout).to.match(/^0 banned/);
    });

    it('an empty REDIS_URL is none, --redis goes before it; no connection stays', async () => {
      const redis = at(guarded.port, `:${encodeURIComponent('p@ss:w/rd?')}@`);
      const none = await headgate(['list'], { cwd, env: { REDIS_URL: '' } });
      expect(none.code).to.equal(2);
      expect(none.stderr).to.contain('--redis: missing');
      const env = { REDIS_URL: 'redis://no-such-host.invalid' };
      expect((await headgate(['list', '--redis', redis], { cwd, env })).code).to.equal(0);
      const admin = new Redis(guarded.port, { password: 'p@ss:w/rd?' });
      // Unlike the commands above, this call must not reach the server, not even after a failed command.
      await headgate(['peek', 'a', '--name', 'n', '--policy', '1/1s', '--redis', `${redis}/3`, '--cluster'], {
        cwd,
      });
      while (((await admin.client('LIST')) as string).trim().split('\n').length > 1);
      admin.disconnect();
    });

    it('a wrong or missing password, a user without permission, a missing database: 1, and what to do', async () => {
      const outcomes = {
        'requires a password': await list(at(guarded.port)),
        'refuses the user or the password': await list(at(guarded.port, ':wrong-s3cret@')),
        'lacks a permission': await ban(at(guarded.port, 'reader:read@')),
        'no database of that number': await list(at(guarded.port, 'default:p%40ss%3Aw%2Frd%3F@', '/9')),
      };
      for (const [says, { code, stdout, stderr }] of Object.entries(outcomes)) {
        expect(stderr).to.contain(says).and.not.to.contain('s3cret');
        expect({ code, stdout }, stderr).to.deep.equal({ code: 1, stdout: '' });
      }
    });

    it('no server at the address: 4', async () => {
      const port = await freePort();
      for (const cluster of [[], ['--cluster']]) {
        const { code, stderr } = await list(at(port, 'u:s3cret@'), '--timeout', '2s', ...cluster);
        expect(stderr).to.match(
          /^headgate: redis:\/\/127\.0\.0\.1:\d+ cannot be reached: .*ECONNREFUSED.*Is the URL right/,
        );
        expect(stderr).not.to.contain('s3cret');
        expect(code).to.equal(4);
      }
      const { code, stderr } = await list('redis://no-such-host.invalid', '--json');
      expect(code).to.equal(4);
      expect(JSON.parse(stderr)).to.have.property('code', 'UNREACHABLE');
    });

    it('a server that does not answer: 4, in time', async () => {
      const stalled = await startServer('redis');
      await stalled.kill('SIGSTOP');
      const { code, stderr } = await list(at(stalled.port), '--timeout', '300ms');
      await stalled.stop();
      expect(stderr).to.match(/has not answered within 300 ms/);
      expect(code).to.equal(4);
    });

    it('a server that no longer answers scripts: 4, in time', async () => {
      const paused = await startServer('redis');
      const redis = at(paused.port);
      const admin = new Redis(paused.port);
      try {
        expect((await ban(redis)).code).to.equal(0);
        await admin.call('CLIENT', 'PAUSE', '60000', 'WRITE');
        const peek = ['peek', 'a', '--name', 'n', ...POLICY, '--redis', redis, '--timeout', '300ms'];
        for (const { code, stderr } of [
          await list(redis, '--timeout', '300ms'),
          await ban(redis, '--timeout', '300ms'),
          await headgate(peek, { cwd }),
        ]) {
          expect(stderr).to.match(/300 ms/);
          expect(code).to.equal(4);
        }
      } finally {
        await admin.call('CLIENT', 'UNPAUSE');
        admin.disconnect();
        await paused.stop();
      }
    });

    it('a cluster: all its nodes are listed, and any key is changed', async () => {
      const [{ port }] = cluster.servers as [TestServer];
      const keys = Array.from({ length: 30 }, (_, i) => `user:${i}`);
      const prefix = ['--prefix', client];
      for (const key of keys) {
        const args = [
          'ban',
          key,
          '1m',
          '--name',
          'n',
          '--force',
          '--cluster',
          ...prefix,
          '--redis',
          at(port),
        ];
        expect(await headgate(args, { cwd })).to.include({ code: 0 });
      }
      const found = await list(at(port), '--cluster', '--json', ...prefix, '--name', 'n', ...POLICY);
      const lines = found.stdout.trim().split('\n');
      expect(lines.map((line) => (JSON.parse(line) as { key: string }).key)).to.have.members(keys);
      const reset = await headgate(
        ['reset', 'user:7', '--name', 'n', '--cluster', ...prefix, '--redis', at(port)],
        { cwd },
      );
      expect(reset.stdout).to.match(/had no charges/);
      const peek = await headgate(
        ['peek', 'user:7', '--name', 'n', ...POLICY, '--cluster', ...prefix, '--redis', at(port)],
        { cwd },
      );
      expect(peek.code).to.equal(3);
    });

    it('a cluster without --cluster, and the other way round: what to do', async () => {
      const [{ port }] = cluster.servers as [TestServer];
      const without = await list(at(port));
      expect(without.stderr).to.match(/is a node of a cluster\. Add --cluster/);
      expect(without.code).to.equal(2);
      const { code, stderr } = await list(url, '--cluster');
      expect(stderr).to.match(/^headgate: --cluster: /);
      expect(code).to.equal(2);
    });
  });
}
