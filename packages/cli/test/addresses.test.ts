// Limiters publish the prefix lengths of their keys, and commands turn addresses into the same keys.
import { expect } from 'chai';
import express from 'express';
import Fastify from 'fastify';
import { createLimiter } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { redisStore } from 'headgate/redis';
import request from 'supertest';
import { Readable } from 'node:stream';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { headgate, json, TELLING, told } from './cli.js';

const CLIENT = '2001:db8:1:2:3:4:5:6';
const POLICY = { limit: 9, window: '1h', ban: {} } as const;

for (const kind of serverKinds) {
  describe(`keys of addresses on ${kind}`, () => {
    let where: string[];
    let prefix: string;
    const closing: (() => unknown)[] = [];

    beforeEach(() => {
      prefix = freshPrefix();
      where = ['--redis', servers[kind].url, '--prefix', prefix];
    });
    afterEach(async () => {
      for (const close of closing.splice(0)) await close();
    });

    const store = () => {
      const made = redisStore(clients[kind], { prefix, ...TELLING });
      closing.push(() => made.close?.());
      return made;
    };
    const app = (options: object) => {
      const middleware = rateLimit({ ...POLICY, store: store(), ...options });
      const made = express();
      made.set('trust proxy', 1);
      made.use(middleware, (_req, res) => void res.send('ok'));
      return async () => {
        const { status } = await request(made).get('/').set('X-Forwarded-For', CLIENT);
        return status;
      };
    };
    const run = (...args: string[]) => headgate([...args, ...where]);

    it('ban, peek, reset and unban take the network that the limiter takes', async () => {
      const ask = app({ name: 'api', ipv6Subnet: 64 });
      await told(where, 'api');
      expect(await ask()).to.equal(200);
      const banned = await run('ban', CLIENT, '1h', '--name', 'api');
      expect(banned).to.include({ code: 0, stderr: '' });
      expect(banned.stdout).to.match(/^2001:db8:1:2::\/64 \(the key of 2001:db8:1:2:3:4:5:6\) is banned/);
      expect(await ask()).to.equal(429);
      expect(await json('peek', CLIENT, '--name', 'api', ...where)).to.include({
        key: '2001:db8:1:2::/64',
        reason: 'banned',
      });
      expect((await run('unban', '2001:0DB8:1:2::1', '--name', 'api')).stdout).to.contain(
        'is no longer banned',
      );
      expect(await ask()).to.equal(200);
      expect((await run('reset', CLIENT, '--name', 'api')).stdout).to.contain('are forgotten: default');
      // A network stands for the keys of all its addresses, spelled as the limiter makes keys.
      expect((await run('ban', '2001:db8:1::/56', '1h', '--name', 'api')).stdout).to.match(/^256 keys of/);
      expect(await ask()).to.equal(429);
      expect((await run('limits')).stdout).to.match(/^9\/1h +by hand +\/64 +/m);
      // A typed option beats the published value.
      expect(await json('peek', CLIENT, '--name', 'api', '--ipv6-subnet', '48', ...where)).to.include({
        key: '2001:db8:1::/48',
      });
    });

    it('bans import takes it, too', async () => {
      const ask = app({ name: 'api', ipv6Subnet: 64 });
      await told(where, 'api');
      const stdin = Readable.from([`${CLIENT}\n2001:db8:1:2::/63\n`]);
      const args = ['bans', 'import', '-', '--name', 'api', '--for', '1h', ...where];
      expect((await headgate(args, { stdin })).stdout).to.match(/^2 keys are banned/);
      expect(await ask()).to.equal(429);
    });

    it('Fastify tells it for each of its limiters', async () => {
      const fastify = Fastify();
      closing.push(() => fastify.close());
      await fastify.register(rateLimitPlugin, {
        global: true,
        store: store(),
        name: 'all',
        ipv6Subnet: 60,
        ...POLICY,
      });
      await fastify.ready();
      await told(where, 'all');
      expect((await run('ban', CLIENT, '1h', '--name', 'all')).stdout).to.match(/^2001:db8:1::\/60 /);
    });

    it('of limiters that differ in it, it must be written', async () => {
      app({ name: 'api', ipv6Subnet: 64 });
      app({ name: 'api' });
      await told(where, 'api');
      for (;;) {
        const { limiters } = (await json('limits', ...where)) as { limiters: { differ: boolean }[] };
        if (limiters[0]!.differ) break;
      }
      for (const args of [
        ['ban', CLIENT, '1h'],
        ['peek', CLIENT],
        ['reset', CLIENT],
        ['unban', CLIENT],
      ]) {
        const { code, stderr } = await run(...args, '--name', 'api');
        expect(code).to.equal(2);
        expect(stderr).to.match(/by different networks: \/56, \/64\. .*--ipv6-subnet/);
      }
      expect((await run('ban', CLIENT, '1h', '--name', 'api', '--ipv6-subnet', '64')).code).to.equal(0);
      // An IPv4 address is a key by itself.
      expect((await run('ban', '203.0.113.7', '1h', '--name', 'api')).code).to.equal(0);
    });

    it('where the program makes the keys, it is said what was taken', async () => {
      const ask = app({ name: 'own', keyGenerator: (req: { ip: string }) => req.ip });
      const limiter = createLimiter({ name: 'plain', store: store(), ...POLICY });
      closing.push(() => limiter.close());
      await told(where, 'own', 'plain');
      for (const name of ['own', 'plain']) {
        const { code, stderr } = await run('ban', CLIENT, '1h', '--name', name);
        expect(code).to.equal(0);
        expect(stderr).to.match(/warning: the program makes the keys of ".*" itself, .*\/56\. .*--raw/);
      }
      expect(await ask()).to.equal(200);
      expect((await run('ban', CLIENT, '1h', '--name', 'own', '--raw')).stderr).to.equal('');
      expect(await ask()).to.equal(429);
    });
  });
}
