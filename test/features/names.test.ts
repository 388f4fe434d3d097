// Limiters of one name on one store: who may share it, and when it is free again.
import { expect } from 'chai';
import { createLimiter, memoryStore, type HeadgateError, type Limiter } from 'headgate';

describe('limiters of one name on one store', () => {
  const store = memoryStore();
  const make = (limit: number, name: string | undefined = 'shared'): Limiter =>
    createLimiter({ store, limit, window: '1m', ...(name !== '' && { name }) });

  function codeOf(call: () => unknown): string {
    try {
      call();
    } catch (error) {
      return (error as HeadgateError).code;
    }
    return 'no error';
  }

  it('agree on the policies for as long as one of them is open', async () => {
    const [first, second] = [make(5), make(5)];
    expect(codeOf(() => make(6))).to.equal('HEADGATE_POLICY_MISMATCH');
    await first.close();
    // Twice is once.
    await first.close();
    expect(codeOf(() => make(6))).to.equal('HEADGATE_POLICY_MISMATCH');
    await second.close();
    const other = make(6);
    expect(codeOf(() => make(5))).to.equal('HEADGATE_POLICY_MISMATCH');
    await other.close();
  });

  it('are told apart from those without a name only while these are open', async () => {
    const unnamed = make(5, '');
    expect(codeOf(() => make(5, ''))).to.equal('HEADGATE_NAME_REQUIRED');
    expect(codeOf(() => make(5, 'default'))).to.equal('HEADGATE_NAME_REQUIRED');
    await unnamed.close();
    const [first, second] = [make(5, 'default'), make(5, 'default')];
    await Promise.all([first.close(), second.close()]);
    await make(6, '').close();
  });

  it('claim nothing if they are refused', async () => {
    const first = make(5);
    for (let i = 0; i < 3; i++) expect(codeOf(() => make(6))).to.equal('HEADGATE_POLICY_MISMATCH');
    await first.close();
    await make(6).close();
  });
});
