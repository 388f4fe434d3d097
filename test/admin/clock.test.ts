// Times of the log are those of the store's clock, whatever clock the process of the administration has.
import { expect } from 'chai';
import { createAdmin } from 'headgate/admin';
import { clients, freshPrefix } from '../support/stores.js';

describe('the log of a process whose clock is wrong', () => {
  it('has the changes of the last minute by the clock of the store', async () => {
    const admin = createAdmin(clients.redis, { prefix: freshPrefix() });
    const { now } = Date;
    const seen = async (since: string) => {
      const actions: string[] = [];
      for await (const { action } of admin.log({ since })) actions.push(action);
      return actions;
    };
    await admin.ban('ada', '1h', { name: 'api', force: true });
    try {
      Date.now = () => now() + 90_000;
      expect(await seen('1m')).to.deep.equal(['ban']);
      await new Promise((resolve) => setTimeout(resolve, 20));
      Date.now = () => now() - 90_000;
      expect(await seen('5ms')).to.deep.equal([]);
    } finally {
      Date.now = now;
    }
  });
});
