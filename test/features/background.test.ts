// Errors of work for which no caller waits are reported.
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, memoryStore, type LimiterOptions, type Store } from 'headgate';
import { inBackground } from '../../src/common/background.js';
import { emittedCodes } from '../../src/common/warnings.js';
import { HeadgateError } from '../../src/common/errors.js';

describe('errors in the background', () => {
  const warningsOf = async (task: () => Promise<unknown>): Promise<string[]> => {
    emittedCodes.clear();
    const warned: string[] = [];
    const onWarning = ({ message, code }: Error & { code?: string }): void =>
      void (code === 'HEADGATE_BACKGROUND' && warned.push(message.replace(/ See .*/, '')));
    process.on('warning', onWarning as never);
    await task();
    await setImmediate();
    process.off('warning', onWarning as never);
    return warned;
  };

  /** A store that answers no question about overrides. */
  function failing(): Store {
    const inner = memoryStore();
    const fail = (): Promise<never> => Promise.reject(new Error('broken'));
    return {
      decide: async (query) => inner.decide(query),
      adjust: async (change) => inner.adjust(change),
      lease: async (change) => inner.lease(change),
      reset: async (subject) => inner.reset(subject),
      ban: async (...ban) => inner.ban(...ban),
      overrides: { read: fail, change: fail },
    };
  }

  const decideTwice = async (options: Partial<LimiterOptions> = {}) => {
    const limiter = createLimiter({
      ...{ limit: 1, window: '1h', overrides: true, onStoreError: 'allow', store: failing(), name: 'live' },
      ...options,
    });
    for (const key of ['k', 'l']) await limiter.consume(key);
    await limiter.close();
  };

  it('are reported once, such as of the override of all keys', async () => {
    expect(await warningsOf(() => decideTwice())).to.deep.equal([
      'The override of all keys was not read: The store failed: broken.',
    ]);
  });

  it('are silenced by `warnings`', async () => {
    expect(await warningsOf(() => decideTwice({ warnings: ['HEADGATE_BACKGROUND'] }))).to.be.empty;
    expect(await warningsOf(() => decideTwice({ warnings: false }))).to.be.empty;
  });

  it('of a store that is down, or of a closed limiter, are reported elsewhere', async () => {
    const warned = await warningsOf(async () => {
      for (const code of ['HEADGATE_STORE_AWAY', 'HEADGATE_CLOSED'] as const)
        await inBackground('Work', Promise.reject(new HeadgateError(code, 'x')));
      await inBackground('Other work', Promise.reject(new HeadgateError('HEADGATE_STORE_TIMEOUT', 'late')));
    });
    expect(warned).to.have.length(1);
    expect(warned[0]).to.match(/^Other work: late/);
  });
});
