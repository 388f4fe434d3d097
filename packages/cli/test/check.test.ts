// `headgate check`: whether limits can hold on a server.
import { once } from 'node:events';
import { createConnection, createServer, type AddressInfo } from 'node:net';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { redisStore } from 'headgate/redis';
import { RedisCounts } from '../../../src/stores/redis/operators/count-sink.js';
import { commandsOf } from '../../../src/stores/redis/clients/clients.js';
import { servers } from '../../../test/support/shared-servers.js';
import { freePort } from '../../../test/support/servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate } from './cli.js';

/** Runs `use` with the URL of a server whose answers arrive late. */
async function lateServer(delayMs: (request: number) => number, use: (url: string) => Promise<void>) {
  let requests = 0;
  const proxy = createServer((from) => {
    const to = createConnection(servers.redis.port, '127.0.0.1');
    let last = Promise.resolve();
    from.on('data', (chunk) => {
      const delay = delayMs(++requests);
      last = last.then(async () => {
        await new Promise((resolve) => setTimeout(resolve, delay));
        to.write(chunk);
      });
    });
    to.pipe(from);
    for (const socket of [from, to])
      socket.on('error', () => {}).on('close', () => (from.destroy(), to.destroy()));
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  try {
    await use(`redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  } finally {
    proxy.close();
  }
}

const user = 'cli-check';

describe('headgate check', () => {
  let admin: Redis;
  before(async () => {
    admin = new Redis(servers.redis.port);
    await admin.call(
      'ACL',
      'SETUSER',
      user,
      'on',
      '>password',
      '~hg:*',
      '+info',
      '+ping',
      '+select',
      '+client',
    );
  });
  after(async () => {
    await admin.call('ACL', 'DELUSER', user);
    admin.disconnect();
  });

  it('of a server on which limits hold: exits with 0', async () => {
    const { code, stdout, stderr } = await headgate(['check', '--redis', servers.redis.url]);
    expect(code, stderr).to.equal(0);
    expect(stdout)
      .to.match(/^ok +version +Redis /m)
      .and.match(/^ok +commands /m);
    expect(stdout).not.to.match(/^error/m);
    expect(await admin.keys('hg:*headgate-check*')).to.deep.equal([]);
  });

  it('for programs', async () => {
    const { code, stdout } = await headgate(['check', '--json', '--redis', servers.redis.url]);
    expect(code).to.equal(0);
    const { holds, findings } = JSON.parse(stdout) as { holds: boolean; findings: { code: string }[] };
    expect(holds).to.equal(true);
    expect(findings.map((finding) => finding.code)).to.have.members([
      'connection',
      'version',
      'eviction',
      'commands',
      'clock',
      'latency',
    ]);
  });

  it('of a server whose first answer is late: a warning with the latency', () =>
    lateServer(
      (request) => (request === 1 ? 1100 : 0),
      async (url) => {
        const { code, stdout } = await headgate(['check', '--redis', url, '--timeout', '20s']);
        expect(stdout).to.match(
          /^warning +connection +The server was connected and answered after \d,\d{3} ms\. Limiters do not wait/m,
        );
        expect(code).to.equal(0);
      },
    ));

  it('of a server whose later answers are late: a warning with the latency', () =>
    lateServer(
      (request) => (request > 3 ? 1100 : 0),
      async (url) => {
        const { stdout } = await headgate(['check', '--redis', url, '--timeout', '20s']);
        expect(stdout).to.match(
          /^warning +latency +The slowest answer took \d{4,} ms, and limiters do not wait/m,
        );
      },
    ));

  // Each answer comes within the time limit. All of them do not.
  it('takes no longer than --timeout in all', () =>
    lateServer(
      () => 450,
      async (url) => {
        const { code, stderr } = await headgate(['check', '--redis', url, '--timeout', '1s']);
        expect(stderr).to.match(/(not answered|not ended) within 1000 ms\. --timeout sets the limit/);
        expect(code).to.equal(4);
      },
    ));

  it('shows how processes see the server, and outages of the last hour', async () => {
    const prefix = freshPrefix();
    const where = ['--redis', servers.redis.url, '--prefix', prefix];
    const store = redisStore(clients.redis, { prefix, publish: false, counts: true });
    const limiter = limiterOn(store, { name: 'api', policies: ['5/1m'] });
    try {
      await limiter.consume('a');
      const sink = new RedisCounts(commandsOf(clients.redis), prefix);
      const idle = { sample: 1, policies: {}, reasons: {}, keys: {} };
      const limiters = [{ name: 'api', counts: [6, 2], degraded: 8, ...idle }] as const;
      const health = { state: 'down', failures: 9, late: 0 } as const;
      const minute = Math.floor(Date.now() / 60_000) * 60_000 - 120_000;
      const fields = new Map([
        [
          'api',
          new Map([
            ['a', 1200],
            ['d', 31],
            ['g', 1231],
          ]),
        ],
      ]);
      sink.write(
        { id: 'x', sample: 1, ms: 1000, host: 'web-2', pid: 42, health, limiters },
        fields,
        [],
        minute,
      );
      let stdout = '';
      while (!stdout.includes(' 1 process counted')) ({ stdout } = await headgate(['check', ...where]));
      expect(stdout).to.match(
        /^ok +processes +1 process counted decisions in the last seconds, with the store up/m,
      );
      const clock = (at: number) => new Date(at).toISOString().slice(11, 16);
      expect(stdout).to.include(
        `The store was down or late in the minute of ${clock(minute)} UTC: 1,231 decisions without it.`,
      );
      expect(stdout).to.match(
        /^warning +processes +web-2:42 sees the store as down; it decides 1\.6 requests a second without the store\./m,
      );
      const latency = { buckets: { 40: 9 }, late: 5 };
      // An outage of the present minute has no end yet. The minute may end before the command reads.
      const now = { id: 'z', sample: 1, ms: 1000, host: 'web-4', pid: 44, health, limiters };
      while (!stdout.includes('down or late since')) {
        sink.write(now, fields, [], Math.floor(Date.now() / 60_000) * 60_000);
        ({ stdout } = await headgate(['check', ...where]));
      }
      expect(stdout).to.match(/down or late since \d\d:\d\d UTC: [\d,]+ decisions without it/);
      sink.write(
        { id: 'y', sample: 1, ms: 1300, host: 'web-3', pid: 43, latency, limiters },
        new Map(),
        [],
        minute,
      );
      while (!stdout.includes('web-3')) ({ stdout } = await headgate(['check', ...where]));
      expect(stdout)
        .to.match(
          /^warning +processes +web-3:43 sees the store as up; 1 answers a second came too late, 99 % within \S+ ms; its event loop was blocked for 300 ms/m,
        )
        .and.match(
          // Other processes see the store as down.
          /^warning +cause +The store was down within the last two minutes, so the late answers may be of that outage\.$/m,
        );
    } finally {
      await limiter.close();
      await store.close?.();
    }
  });

  it('after an outage, names no process as the cause of late answers, and no outage that goes on', async () => {
    const prefix = freshPrefix();
    const where = ['--redis', servers.redis.url, '--prefix', prefix];
    const sink = new RedisCounts(commandsOf(clients.redis), prefix);
    const idle = { sample: 1, policies: {}, reasons: {}, keys: {} };
    const limiters = [{ name: 'api', counts: [6, 0], degraded: 8, ...idle }] as const;
    const process = { id: 'y', sample: 1, ms: 1000, host: 'web-3', pid: 43, limiters } as const;
    const late = { ...process, latency: { buckets: { 40: 9 }, late: 5 } };
    const minuteOf = (at: number): number => Math.floor(at / 60_000) * 60_000;
    const check = async (text: string) => {
      let stdout = '';
      while (!stdout.includes(text)) ({ stdout } = await headgate(['check', ...where]));
      return stdout;
    };
    sink.write(late, new Map(), [], minuteOf(Date.now()));
    expect(await check('web-3')).to.match(
      /^warning +cause +The server answered this command (at once, so 1 process or the network in between is busy|late, too, so .*)\.$/m,
    );
    const down = (...counts: [string, number][]) => new Map([['api', new Map(counts)]]);
    // Two minutes in a row, so that the outage is never only of the minute after the present one.
    const now = minuteOf(Date.now());
    sink.write(late, down(['g', 3], ['h', 3]), [], now - 60_000);
    sink.write(late, down(['g', 4], ['h', 4]), [], now);
    const stdout = await check('7 decisions without it');
    expect(stdout).to.match(/^warning +cause +The store was down within the last two minutes/m);
    expect(stdout).to.match(/down or late between about \d\d:\d\d and (now|\d\d:\d\d) UTC: 7 decisions/);
  });

  it('of a user who may not run scripts: exits with 1, and says why', async () => {
    const url = `redis://${user}:password@127.0.0.1:${servers.redis.port}`;
    const { code, stdout } = await headgate(['check', '--redis', url]);
    expect(code).to.equal(1);
    expect(stdout).to.match(/^error +commands +The server does not run scripts: NOPERM/m);
  });

  it('of no server: exits with 4', async () => {
    const { code, stderr } = await headgate(['check', '--redis', `redis://127.0.0.1:${await freePort()}`]);
    expect(code).to.equal(4);
    expect(stderr).not.to.equal('');
  });
});
