// headgate log --undo.
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

describe('headgate log --undo', () => {
  it('undoes a change by its id, once, with the operator and the reason', async () => {
    const prefix = freshPrefix();
    const where = ['--redis', servers.redis.url, '--prefix', prefix];
    const limiter = limiterOn(redisStore(clients.redis, { prefix, ...TELLING }), {
      ...{ name: 'api', limit: 2, window: '1h', ban: {} },
    });
    await told(where, 'api');
    await headgate(['ban', 'a', '1h', '--name', 'api', '--name', 'api', '--by', 'ada', ...where]);
    const id = /(\S+)\n$/.exec((await headgate(['log', ...where])).stdout)![1]!;
    const undo = (...more: string[]) => headgate(['log', '--undo', id, '--by', 'eve', ...where, ...more]);
    expect(await undo('--dry-run')).to.include({
      code: 0,
      stdout: 'The ban of a in api could be undone by: unban.\n',
    });
    expect(await undo()).to.include({ code: 0, stdout: 'The ban of a in api was undone by: unban.\n' });
    const [newest] = await jsonLines('log', ...where);
    expect(newest).to.include({ action: 'unban', key: 'a', by: 'eve', reason: `undo of ${id}`, undoes: id });
    const again = await undo();
    expect(again.code).to.equal(1);
    expect(again.stderr).to.match(
      /The state has changed since: this change was already undone by eve, at 20/,
    );
    const table = (await headgate(['log', '--key', 'a', '--author', 'ada', ...where])).stdout;
    expect(table)
      .to.match(/^\S+ \S+ +\d+m?s +ban \(undone\) +api +a /m)
      .and.not.contain('eve');
    expect((await headgate(['log', '--author', 'eve', ...where])).stdout).to.contain(`unban (undo of ${id})`);
    expect(await jsonLines('log', '--key', 'b', ...where)).to.deep.equal([]);
    expect((await headgate(['log', '--undo', '1-1', ...where])).code).to.equal(2);
    expect(await json('log', '--undo', newest!['id'] as string, ...where)).to.deep.include({
      ...{ action: 'ban', dryRun: false },
    });
    // The undo was undone, so that the ban is in force and can be undone again.
    expect((await headgate(['log', '--author', 'ada', ...where])).stdout).not.to.contain('(undone)');
    expect(await undo()).to.include({ code: 0 });
    await limiter.close();
  });
});
