// Law 10. The reply of a denied key is found again, in the key's own record or a shared one, whatever other keys are added or removed.
import { expect } from 'chai';
import fc from 'fast-check';
import { DeniedKeys, type Denial } from '../../src/stores/redis/local/denied-keys.js';
import { remainingOf, waitOf } from '../../src/contract/verdicts.js';
import { runs } from '../support/random.js';

const BIG = 2 ** 31;

const whole = (max: number) => fc.oneof(fc.nat(max), fc.constantFrom(0, 1, BIG - 1, BIG, 1e12));
const verdict = fc.tuple(fc.oneof(fc.constant(-1), whole(1000)), whole(1000), whole(1000));
const denials = fc.record({
  policies: fc.constantFrom('these', 'these', 'those'),
  cost: whole(3),
  reply: fc.record({
    now: fc.constantFrom(0, 1_800_000_000_000),
    step: fc.constant(0),
    ban: fc.constantFrom(0, 0, 0, 5000),
    verdicts: fc.array(verdict, { minLength: 0, maxLength: 2 }).map((list) => list.flat()),
  }),
});

const steps = fc.array(
  fc.record({
    action: fc.constantFrom('set', 'set', 'set', 'delete', 'look'),
    key: fc.nat(120).map((n) => `key ${n}`),
    denial: denials,
    pause: fc.constantFrom(0, 0, 0.5, 1, 3),
    life: fc.constantFrom(1, 20, 1e6),
  }),
  { minLength: 50, maxLength: 400 },
);

describe('law 10: denied keys', () => {
  it('return the reply of a denial until it is forgotten', () => {
    fc.assert(
      fc.property(steps, fc.constantFrom(1, 5, 64, 100, 1000), (list, most) => {
        const denied = new DeniedKeys('these', most);
        const model = new Map<string, Denial>();
        let time = 0.25;
        for (const { action, key, denial, pause, life } of list) {
          time += pause;
          if (action === 'set') {
            const noted = { ...denial, received: time, until: time + life };
            denied.set(key, noted);
            model.set(key, noted);
          } else if (action === 'delete') {
            denied.delete(denied.find(key));
            model.delete(key);
          }
          for (const each of [key, ...model.keys()]) {
            const row = denied.find(each);
            const expected = model.get(each);
            if (row === 0) continue;
            expect(expected, each).not.to.equal(undefined);
            expect(denied.policiesOf(row)).to.equal(expected!.policies);
            const { cost, received, until, reply } = expected!;
            const expectedReply = time < until ? after(expected!, Math.floor(time - received)) : undefined;
            // The wait of a ban depends on the cost, too, unless the policies would admit both.
            const other = (cost as number) + 1;
            const admits = (i: number) =>
              waitOf(reply.verdicts, i) === 0 && remainingOf(reply.verdicts, i) >= other;
            const isAlike = reply.ban > 0 && reply.verdicts.every((_, i) => i % 3 > 0 || admits(i / 3));
            const expectedOther = isAlike ? expectedReply : undefined;
            expect(denied.reply(row, other, time)).to.deep.equal(expectedOther);
            if (expectedReply) expect(denied.reply(row, cost, time)).to.deep.equal(expectedReply);
            else expect(denied.find(each), 'what is over').to.equal(0);
          }
          if (action === 'set') expect(denied.find(key), 'what was said last').to.be.above(0);
          expect(denied.size).to.be.at.most(Math.min(most, model.size));
        }
      }),
      runs('memory', 100, 0),
    );
  });

  it('forget the oldest first, and none as long as there is room', () => {
    for (const capacity of [1, 64, 65, 1000]) {
      const denied = new DeniedKeys('these', capacity);
      const reply = { now: 0, step: 0, ban: 0, verdicts: [5, 0, 5] };
      const count = 3 * capacity;
      for (let i = 0; i < count; i++) {
        denied.set(`key ${i}`, { policies: 'these', cost: 1, reply, received: i, until: Infinity });
        expect(denied.size).to.equal(Math.min(i + 1, capacity));
      }
      for (let i = 0; i < count; i++) expect(denied.find(`key ${i}`) > 0).to.equal(i >= count - capacity);
    }
  });

  it('reuse the room of expired denials before they take more memory', () => {
    const denied = new DeniedKeys('these', 1000);
    const reply = { now: 0, step: 0, ban: 0, verdicts: [5, 0, 5] };
    for (let i = 0; i < 5000; i++) {
      denied.set(`key ${i}`, { policies: 'these', cost: 1, reply, received: i, until: i + 32 });
    }
    expect(denied.size).to.be.at.most(64);
  });
});

/** The reply of a denial, `ms` later. */
function after({ reply: { now, ban, verdicts } }: Denial, ms: number) {
  const rest = (time: number, i: number) => (i % 3 === 1 || time === -1 ? time : Math.max(0, time - ms));
  return { now: now + ms, step: 0, ban: ban === 0 ? 0 : ban - ms, verdicts: verdicts.map(rest) };
}
