// Apps' tests that replace time: the memory store follows the fake time, and calls to a server follow the real time.
import { execFile } from 'node:child_process';
import { mock } from 'node:test';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { useFakeTimers } from 'sinon';
import { createLimiter, memoryStore, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import { serverKinds, servers } from '../support/shared-servers.js';
import { clients, freshPrefix } from '../support/stores.js';

const execute = promisify(execFile);

const never = () => new Promise<never>(() => {});
const hanging = (): Store => ({ decide: never, adjust: never, lease: never, reset: never, ban: never });

/** The ways to replace time. Each returns the functions that advance and restore it. */
const fakes = {
  'node:test': () => {
    mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'setImmediate', 'Date'], now: Date.now() });
    return { tick: (ms: number) => mock.timers.tick(ms), end: () => mock.timers.reset() };
  },
  sinon: () => {
    const clock = useFakeTimers({ now: Date.now(), toNotFake: ['nextTick', 'queueMicrotask'] });
    return { tick: (ms: number) => void clock.tick(ms), end: () => clock.restore() };
  },
};

for (const [name, begin] of Object.entries(fakes)) {
  describe(`under the fake timers of ${name}`, () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, algorithm: 'fixed-window', limit: 1, window: '1m' });
    let time: ReturnType<typeof begin>;
    beforeEach(() => (time = begin()));
    afterEach(() => {
      time.end();
      store.clear();
    });

    it('a memory store that was created before follows their time', async () => {
      expect((await limiter.consume('ada')).allowed).to.be.true;
      time.tick(59_000);
      expect((await limiter.consume('ada')).retryAfterMs).to.equal(1000);
      time.tick(1000);
      expect((await limiter.consume('ada')).allowed).to.be.true;
    });

    for (const kind of serverKinds) {
      it(`decisions on ${kind} come, however many at once and however busy the process was`, async () => {
        const onServer = createLimiter({
          store: redisStore(clients[kind], { prefix: freshPrefix() }),
          policies: '30/1m',
          timeout: '10s',
          onStoreError: 'throw',
        });
        for (let round = 0; round < 3; round++) {
          const pending = Array.from({ length: 12 }, () => onServer.consume('ada'));
          const admitted = (await Promise.all(pending)).filter(({ allowed }) => allowed);
          expect(admitted).to.have.length(round < 2 ? 12 : 6);
        }
        await onServer.close();
      });
    }

    it('a call to a store that never answers times out in real time', async () => {
      const options = { limit: 1, window: '1m', timeout: 20, connectTimeout: 20 } as const;
      const { degraded, allowed } = await createLimiter({ ...options, store: hanging() }).consume('ada');
      expect({ degraded, allowed }).to.deep.equal({ degraded: true, allowed: true });
    });

    for (const kind of ['memory', ...serverKinds] as const) {
      it(`decisions on ${kind} come if Headgate was loaded under them`, async () => {
        const port = kind === 'memory' ? 'none' : String(servers[kind].port);
        const script = new URL('../support/fake-timers-child.ts', import.meta.url).pathname;
        const args = ['--no-warnings', ...TYPESCRIPT, script, port, name];
        const { stdout } = await execute(process.execPath, args);
        expect(JSON.parse(stdout)).to.deep.equal({
          admitted: 10,
          error: 'HEADGATE_STORE_TIMEOUT',
          ran: ['kept'],
        });
      }).timeout(60_000);
    }
  });
}
