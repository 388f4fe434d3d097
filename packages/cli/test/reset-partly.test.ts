// Resets of several limiters, of which one refuses or fails: the others are reset, and reported.
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, limiterOn } from '../../../test/support/stores.js';
import { headgate, TELLING, told } from './cli.js';
import { forEachTest } from './places.js';

for (const kind of serverKinds)
  describe(`a reset of several limiters on ${kind}`, () => {
    const client = clients[kind];
    let prefix: string;
    let where: string[];
    let limiters: Limiter[];
    forEachTest(kind, (place) => ({ prefix, where, limiters } = place));

    /** Creates limiters that have charged a key once. */
    const charged = async (...all: readonly object[]) => {
      const store = redisStore(client, { prefix, ...TELLING });
      for (const options of all) {
        const limiter = limiterOn(store, { policies: ['ip=5/1h', 'org=9/1h by org'], ...options });
        limiters.push(limiter);
        await limiter.consume({ key: '10.9.0.1', org: 'acme' });
      }
      await told(where, ...limiters.map(({ name }) => name));
    };
    const left = async () => {
      const views = limiters.map((limiter) => limiter.peek({ key: '10.9.0.1', org: 'acme' }));
      return (await Promise.all(views)).map(({ remaining }) => remaining);
    };

    it('fails if a limiter refuses the network, after the others are reset', async () => {
      await charged({ name: 'api' }, { name: 'orgs', slotBy: 'org' }, { name: 'web' });
      const { code, stdout, stderr } = await headgate(['reset', '10.9.0.0/30', '--all-limiters', ...where]);
      expect(code).to.equal(1);
      expect(stdout.split('\n')).to.deep.equal([
        'The charges of 1 of 4 keys of 10.9.0.0/30 in api are forgotten: ip.',
        'The charges of 1 of 4 keys of 10.9.0.0/30 in web are forgotten: ip.',
        '',
      ]);
      expect(stderr).to.match(/^headgate: warning: orgs: .*slotBy/);
      expect(await left()).to.deep.equal([5, 4, 5]);
    });

    describe('that ends with an error', () => {
      /** A user without permission for the keys of the limiter `web`. */
      let user: string;
      let asUser: string[];
      beforeEach(async () => {
        user = `user-${prefix}`;
        const keys = [`~${prefix}:[^{]*`, `~${prefix}:{[^w]*`];
        await client.call('ACL', 'SETUSER', user, 'reset', 'on', '>password', '&*', '+@all', ...keys);
        const url = servers[kind].url.replace('//', `//${user}:password@`);
        asUser = ['--redis', url, '--prefix', prefix];
        await charged({ name: 'api' }, { name: 'web' });
      });
      afterEach(() => client.call('ACL', 'DELUSER', user));

      for (const [what, key, ...names] of [
        ['of a network', '10.9.0.0/30', '--all-limiters'],
        ['of a key', '10.9.0.1', '--name', 'api', '--name', 'web'],
      ] as const)
        it(`shows the limiters that were reset before, ${what}`, async () => {
          const { code, stdout, stderr } = await headgate(['--json', 'reset', key, ...names, ...asUser]);
          expect(code).to.equal(1);
          expect(JSON.parse(stdout)).to.deep.include({ name: 'api', policies: ['ip'], charged: 1 });
          expect(stderr).to.match(/NOPERM|permission/i);
          expect(await left()).to.deep.equal([5, 4]);
        });

      it('writes no result if no limiter was reset', async () => {
        const { code, stdout } = await headgate(['--json', 'reset', '10.9.0.1', '--name', 'web', ...asUser]);
        expect([code, stdout]).to.deep.equal([1, '']);
      });
    });
  });
