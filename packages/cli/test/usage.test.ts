// usage counts the states of each limiter, and estimates their bytes.
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds } from '../../../test/support/shared-servers.js';
import { clients, limiterOn } from '../../../test/support/stores.js';
import { count } from '../src/format.js';
import { headgate, json, TELLING, told } from './cli.js';
import { forEachTest } from './places.js';

interface Usage {
  name?: string;
  nameHash?: string;
  states: number;
  bytes: number | null;
}

for (const kind of serverKinds) {
  describe(`headgate usage on ${kind}`, () => {
    let prefix: string;
    let where: string[];
    let limiters: Limiter[];

    forEachTest(kind, (place) => ({ prefix, where, limiters } = place));

    const on = (name: string, policies: string[]): Limiter => {
      const store = redisStore(clients[kind], { prefix, ...TELLING });
      const limiter = limiterOn(store, { name, policies, ban: { after: 9 } });
      limiters.push(limiter);
      return limiter;
    };
    const found = async (...args: string[]) => (await json('usage', ...where, ...args)) as Usage[];

    it('shows the limiter with most bytes first, and counts a state for each policy, key and ban', async () => {
      const [few, many] = [on('few', ['5/1h']), on('many', ['5/1h', 'token-bucket 9/1h'])];
      await told(where, 'few', 'many');
      for (const key of ['a', 'b', 'c']) await many.consume(key);
      await few.consume('a');
      await few.ban('b', '1h');
      const all = await found();
      expect(all.map(({ name, states }) => [name, states])).to.deep.equal([
        ['many', 6],
        ['few', 2],
      ]);
      for (const { states, bytes } of all) expect(bytes! / states).to.be.within(50, 500);
      const { stdout, code } = await headgate(['usage', ...where]);
      expect(code).to.equal(0);
      const [most, least] = all.map(({ bytes }) => count(bytes!));
      expect(stdout).to.equal(
        `limiter  states  bytes (estimate)\nmany     6       ${most}\nfew      2       ${least}\n`,
      );
    });

    it('--name selects one limiter, and an unknown name is reported', async () => {
      const limiter = on('api', ['5/1h']);
      await on('other', ['5/1h']).consume('a');
      await told(where, 'api', 'other');
      await limiter.consume('a');
      expect((await found('--name', 'api')).map(({ name, states }) => [name, states])).to.deep.equal([
        ['api', 1],
      ]);
      const { code, stdout, stderr } = await headgate(['usage', ...where, '--name', 'nope']);
      expect(code).to.equal(0);
      expect(stdout).to.equal('There is no state.\n');
      expect(stderr).to.match(/warning: .*"nope"/);
    });

    it('without state: a sentence, or an empty list', async () => {
      expect((await headgate(['usage', ...where])).stdout).to.equal('There is no state.\n');
      expect(await found()).to.deep.equal([]);
    });

    it('a long name, of which the store has only the hash, is shown as the hash', async () => {
      await on('é'.repeat(200), ['5/1h']).consume('a');
      const [usage, ...others] = await found();
      expect(others).to.deep.equal([]);
      expect(usage).to.include({ states: 1 }).and.not.have.property('name');
      expect((await headgate(['usage', ...where])).stdout).to.contain(usage!.nameHash);
    });
  });
}
