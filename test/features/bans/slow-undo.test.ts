// The undo of bans of many keys that take longer than the difference between two ends that count as the same.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createAdmin, type Admin } from 'headgate/admin';
import { memoryStore, type Store } from 'headgate';
import { clients, freshPrefix } from '../../support/stores.js';
import { serverKinds, servers } from '../../support/shared-servers.js';
import { all } from '../../admin/stores.js';

const NAMED = { name: 'api', by: 'ada', reason: 'typo' };
const LATENCY_MS = 300;

describe('bans that take long', () => {
  const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  const isUndone = async (admin: Admin, network: string) => {
    await admin.ban(network, '2h', { ...NAMED, force: true });
    const [entry] = await all(admin.log());
    expect(entry).to.include({ action: 'ban', network }).and.not.have.property('tookMs');
    expect((await admin.undo(entry!)).action).to.equal('unban');
    expect(await all(admin.bans())).to.deep.equal([]);
  };

  it('a ban of a network whose log entry comes late', async () => {
    const store: Store = memoryStore();
    const admin = createAdmin(store);
    const ban = store.ban.bind(store);
    store.ban = async (subject, duration, ...note) => {
      await ban(subject, duration, ...note);
      if (duration > 0) await sleep(2500);
    };
    await isUndone(admin, '10.0.0.0/30');
  });

  it('another ban of a key of the network is still noticed', async () => {
    const store: Store = memoryStore();
    const admin = createAdmin(store);
    await admin.ban('10.0.0.0/30', '2h', { ...NAMED, force: true });
    const [entry] = await all(admin.log());
    await admin.ban('10.0.0.1', '119m', { ...NAMED, force: true });
    const error = (await admin.undo(entry!).catch((thrown: unknown) => thrown)) as object;
    expect(error).to.have.property('code', 'HEADGATE_CHANGED_SINCE');
  });

  if (serverKinds.includes('redis'))
    it('a network of several batches on a slow connection', async () => {
      const prefix = freshPrefix();
      const client = new Redis(servers.redis.port);
      const send = client.sendCommand.bind(client);
      client.sendCommand = (command, stream) => {
        setTimeout(() => send(command, stream), LATENCY_MS);
        return command.promise;
      };
      try {
        await isUndone(createAdmin(client, { prefix }), '10.0.0.0/21');
      } finally {
        client.disconnect();
        for (const key of await clients.redis.keys(`${prefix}:*`)) await clients.redis.del(key);
      }
    });
});
