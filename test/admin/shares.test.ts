// Limiters with a shared limit, whose hidden policies operators do not see.
import { expect } from 'chai';
import type { JudgedKey } from 'headgate/admin';
import { places, useLimiters, type Place } from './stores.js';

for (const [kind, open] of Object.entries(places))
  for (const policy of ['p=2/1h by provider share tenant', 'p=concurrency 2/1h by provider share tenant'])
    describe(`admin of '${policy}', on ${kind}`, () => {
      let place: Place;
      const { make, known } = useLimiters(open, (opened) => (place = opened));

      it('shows a key, and lists the limited keys', async () => {
        const limiter = make({ name: 'shared', store: place.store, policies: policy });
        await limiter.consume({ provider: 'openai', tenant: 'acme' }, { cost: 2 });
        await known('shared');
        if (kind !== 'sqlite') {
          const views = await place.admin.key('openai');
          expect(views.map(({ dimension }) => dimension)).to.deep.equal(['provider']);
        }
        const given = { name: 'shared', policies: [policy] };
        for (const options of [given, ...(kind === 'sqlite' ? [] : [{ name: 'shared' }])]) {
          const limited: JudgedKey[] = [];
          for await (const entry of place.admin.limited(options)) limited.push(entry);
          expect(limited.map(({ key, policies }) => [key, policies.map(({ name }) => name)])).to.deep.equal([
            ['openai', ['p']],
          ]);
        }
      });
    });
