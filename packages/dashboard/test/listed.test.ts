// The numbers of the bans and the overrides of an opened limiter, and their pages.
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { startPage } from './servers.js';

interface Total {
  readonly total: number;
  readonly isCut: boolean;
}

interface Answer {
  readonly bans: readonly { readonly key: string }[];
  readonly overrides: readonly object[];
  readonly totals: { readonly bans: Total; readonly overrides: Total };
}

describe('the bans and the overrides of an opened limiter', () => {
  it('are counted, and read by pages', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1h'], ban: {}, overrides: true });
    const site = await startPage({ store });
    try {
      const admin = createAdmin(store);
      await limiter.consume('ada');
      await admin.ban('203.0.113.0/24', '1h', { name: 'api', by: 'ada', reason: 'INC-7' });
      for (let i = 0; i < 60; i++) await limiter.override(`k${i}`, '9/1h');
      const get = async <T = Answer>(path: string): Promise<T> =>
        (await (await fetch(site.url + path)).json()) as T;
      while ((await fetch(`${site.url}api/use?name=api`)).status === 404)
        await new Promise((resolve) => setTimeout(resolve, 50));
      const first = await get('api/limiter?name=api');
      expect([first.bans.length, first.overrides.length]).to.deep.equal([50, 50]);
      expect(first.totals).to.deep.equal({
        bans: { total: 256, isCut: false },
        overrides: { total: 60, isCut: false },
      });
      const more = await get('api/limiter?name=api&bans=3&overrides=2');
      expect([more.bans.length, more.overrides.length]).to.deep.equal([150, 60]);
      const all = await get('api/limiter?name=api&bans=99&overrides=invented');
      expect(new Set(all.bans.map(({ key }) => key)).size).to.equal(256);
      expect(all.overrides).to.have.length(50);
      // The search meets the bans that the record has, too.
      const { bans } = await get<{ bans: { isRecorded: boolean }[] }>('api/denied?name=api');
      expect(bans.filter(({ isRecorded }) => !isRecorded)).to.deep.equal([]);
    } finally {
      await site.close();
      await limiter.close();
    }
  });

  it('are at least the most that are read', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1h'], overrides: true });
    const site = await startPage({ store });
    try {
      for (let i = 0; i < 510; i++) await limiter.override(`k${i}`, '9/1h');
      while ((await fetch(`${site.url}api/use?name=api`)).status === 404)
        await new Promise((resolve) => setTimeout(resolve, 50));
      const answer = (await (await fetch(`${site.url}api/limiter?name=api&overrides=99`)).json()) as Answer;
      expect(answer.overrides).to.have.length(500);
      expect(answer.totals.overrides).to.deep.equal({ total: 500, isCut: true });
    } finally {
      await site.close();
      await limiter.close();
    }
  });
});
