// Limiters with the same name on one store: which limiters may share a name, and when a name is free again.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { codeThrownBy } from '../support/errors.js';

describe('limiters of one name on one store', () => {
  const store = memoryStore();
  const make = (limit: number, name: string | undefined = 'shared'): Limiter =>
    createLimiter({ store, limit, window: '1m', ...(name !== '' && { name }) });

  it('agree on the policies while one of them is open', async () => {
    const [first, second] = [make(5), make(5)];
    expect(codeThrownBy(() => make(6))).to.equal('HEADGATE_POLICY_MISMATCH');
    await first.close();
    // A second close has no effect.
    await first.close();
    expect(codeThrownBy(() => make(6))).to.equal('HEADGATE_POLICY_MISMATCH');
    await second.close();
    const other = make(6);
    expect(codeThrownBy(() => make(5))).to.equal('HEADGATE_POLICY_MISMATCH');
    await other.close();
  });

  it('of several plans are refused with the fix, which is tiers', async () => {
    const free = make(5);
    expect(() => make(6)).to.throw(/tiers: \{ free: '100\/1m'/);
    await free.close();
  });

  it('conflict with limiters without a name only while these are open', async () => {
    const unnamed = make(5, '');
    expect(codeThrownBy(() => make(5, ''))).to.equal('HEADGATE_NAME_REQUIRED');
    expect(codeThrownBy(() => make(5, 'default'))).to.equal('HEADGATE_NAME_REQUIRED');
    await unnamed.close();
    const [first, second] = [make(5, 'default'), make(5, 'default')];
    await Promise.all([first.close(), second.close()]);
    await make(6, '').close();
  });

  it('claim no name if they are refused', async () => {
    const first = make(5);
    for (let i = 0; i < 3; i++) expect(codeThrownBy(() => make(6))).to.equal('HEADGATE_POLICY_MISMATCH');
    await first.close();
    await make(6).close();
  });

  it('differ also in their bans and tiers, and an error shows both', async () => {
    const ban = { after: 3, for: '2h', factor: 1.5 };
    const options = { name: 'told', store, limit: 5, window: '1m' } as const;
    const first = createLimiter({ ...options, ban, tiers: { more: ['a=9/1m', 'b=1/1s'] } });
    const texts = 'ban after 3 .*10m.*2h.*1\\.5.*1d';
    expect(() => createLimiter({ ...options, ban: {} })).to.throw(
      new RegExp(`: 5/1m, ${texts}; or a=9/1m, b=1/1s, ${texts}\\. .*: 5/1m, ban by hand .*1h.*2.*1d\\.`),
    );
    expect(() => createLimiter({ ...options, ban })).to.throw(/: 5\/1m, ban after 3 .*: 5\/1m, ban after 3 /);
    await first.close();
  });
});

describe('policies without names', () => {
  it('are numbered if there are several, and each name is used once', () => {
    const namesOf = (policies: string[]) => createLimiter({ policies }).policies.map(({ name }) => name);
    expect(namesOf(['5/1m'])).to.deep.equal(['default']);
    expect(namesOf(['5/1m', 'own=9/1h', '50/1d'])).to.deep.equal(['policy-1', 'own', 'policy-3']);
    expect(() => namesOf(['policy-2=5/1m', '9/1h'])).to.throw('policies: name: "policy-2"');
  });
});
