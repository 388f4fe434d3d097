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

  /** A store that forgets no charges. */
  const failing = (): Store =>
    Object.assign(memoryStore(), {
      reset: () => {
        throw new Error('broken');
      },
    });

  const banTwice = async (options: Partial<LimiterOptions> = {}) => {
    const limiter = createLimiter({
      ...{ limit: 1, window: '1h', ban: { after: 1, fresh: true }, store: failing(), name: 'fresh' },
      ...options,
    });
    for (const key of ['k', 'k', 'l', 'l']) await limiter.consume(key);
    await limiter.close();
  };

  it('are reported once, such as of a fresh ban that cannot forget the charges', async () => {
    expect(await warningsOf(() => banTwice())).to.deep.equal([
      'A fresh ban has not forgotten the charges of its key: broken.',
    ]);
  });

  it('are silenced by `warnings`', async () => {
    expect(await warningsOf(() => banTwice({ warnings: ['HEADGATE_BACKGROUND'] }))).to.be.empty;
    expect(await warningsOf(() => banTwice({ warnings: false }))).to.be.empty;
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
