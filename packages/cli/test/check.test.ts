// `headgate check`: whether limits can hold on a server.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { servers } from '../../../test/support/shared-servers.js';
import { freePort } from '../../../test/support/servers.js';
import { headgate } from './cli.js';

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
      'version',
      'eviction',
      'commands',
      'clock',
    ]);
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
