// The configuration by which keys are judged while processes differ.
import { expect } from 'chai';
import { Published, type Instance } from '../../src/admin/published.js';

const NOW = Date.parse('2026-11-30T07:00:00Z');

/** An instance that published so long ago, by default every 30 seconds. */
const instance = (id: string, policy: string, secondsAgo: number, every = 30_000): Instance => {
  const limiter = {
    name: 'api',
    policies: [policy],
    ban: null,
    shadow: false,
    dynamic: false,
    ipv6Subnets: [],
  };
  const at = new Date(NOW - 1000 * secondsAgo).toISOString();
  return { id, version: '0.1.0', host: 'web', pid: 1, at, every, limiters: [limiter], more: 0 };
};
const chosen = (...instances: Instance[]) =>
  new Published(instances, { mark: undefined, isComplete: true }).scopes.get('api')![0]!.policies[0];

describe('the most common configuration', () => {
  it('is that of most processes, and of equally many always the same', () => {
    const [one, two, three] = [
      instance('a', '1/1m', 0),
      instance('b', '2/1m', 20),
      instance('c', '2/1m', 25),
    ];
    expect(chosen(one, two, three)).to.equal('2/1m');
    expect([chosen(one, two), chosen(two, one)]).to.deep.equal(['1/1m', '1/1m']);
  });

  it('is not that of processes that have ended, which no longer publish', () => {
    const ended = ['a', 'b', 'c'].map((id) => instance(id, '1/1m', 50));
    expect(chosen(...ended, instance('d', '2/1m', 3))).to.equal('2/1m');
    // A process that publishes once is not late.
    expect(chosen(instance('a', '1/1m', 500, 0), instance('b', '2/1m', 0))).to.equal('1/1m');
  });
});
