// Errors of work for which no caller waits are reported.
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, memoryStore, type LimiterOptions, type Store } from 'headgate';
import { inBackground } from '../../src/common/background.js';
import { emittedCodes } from '../../src/common/warnings.js';
import { HeadgateError } from '../../src/common/errors.js';
import { RepeatedReads } from '../../src/limiter/overrides/late-reads.js';

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

  it('of late reads of the override of all keys are reported only if several in a row are late', async () => {
    const late = (): Promise<void> => Promise.reject(new HeadgateError('HEADGATE_STORE_TIMEOUT', 'late'));
    const reads = new RepeatedReads();
    for (let i = 0; i < 4; i++) await reads.outcome(late());
    await reads.outcome(Promise.resolve());
    for (let i = 0; i < 4; i++) await reads.outcome(late());
    const reported = (read: Promise<void>): Promise<unknown> =>
      reads.outcome(read).then(
        () => undefined,
        (error: unknown) => error,
      );
    expect(await reported(late())).to.be.instanceOf(HeadgateError);
    await reads.outcome(Promise.resolve());
    expect(await reported(Promise.reject(new Error('broken')))).to.be.instanceOf(Error);
  });

  it('a single late read of the override of all keys is repeated, not reported', async () => {
    const late = (): Promise<never> => Promise.reject(new HeadgateError('HEADGATE_PROCESS_LATE', 'late'));
    const store = { ...failing(), overrides: { read: late, change: late } };
    expect(await warningsOf(() => decideTwice({ store }))).to.deep.equal([]);
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
