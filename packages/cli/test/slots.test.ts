// The slots in use and the waiting requests, by key and process.
import { expect } from 'chai';
import { createLimiter, type Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { headgate, jsonLines, TELLING, told } from './cli.js';

describe('slots and waiting requests', () => {
  let reports: Limiter;
  let where: string[];
  let stop: AbortController;
  beforeEach(async () => {
    const prefix = freshPrefix();
    where = ['--redis', servers.redis.url, '--prefix', prefix];
    const store = redisStore(clients.redis, { prefix, ...TELLING });
    reports = createLimiter({ store, name: 'reports', policies: ['slots=concurrency 1/1m'] });
    stop = new AbortController();
    await reports.acquire('pdf');
    void reports.wait('pdf', { timeout: '1m', signal: stop.signal }).catch(() => {});
    await told(where, 'reports');
    while (!(await headgate(['list', ...where])).stdout.includes('waiting requests'));
  });
  afterEach(async () => {
    stop.abort();
    await reports.close();
  });

  it('list: has a table of keys and processes', async () => {
    const { stdout } = await headgate(['list', ...where]);
    expect(stdout).to.match(
      new RegExp(`reports +pdf +\\S+ ${process.pid} +1, for up to \\S+ +1, for up to \\S+`),
    );
    const lines = await jsonLines('list', ...where);
    const queue = lines.find(({ kind }) => kind === 'queue');
    expect(queue).to.include({ name: 'reports', key: 'pdf', pid: process.pid, slots: 1, waiting: 1 });
    expect((await headgate(['list', '--banned', ...where])).stdout).not.to.contain('waiting requests');
  });

  it('key: has the processes in its notes', async () => {
    const { stdout } = await headgate(['key', 'pdf', ...where]);
    expect(stdout).to.match(
      new RegExp(` ${process.pid}: 1 slot held for up to \\S+, 1 waiting for up to \\S+\n`),
    );
  });
});
