// What the checks of a store look at: of each reply that one gets, a part is spoilt, and the check fails if it minds.
import { expect } from 'chai';
import { memoryStore, type Reply, type Store } from 'headgate';
import { storeChecks, type Check, type StoreUnderTest } from 'headgate/testing';

/** Changes one of the three numbers that each policy has in a reply. */
const each =
  (which: number, change: (value: number) => number) =>
  (reply: Reply): Reply => ({
    ...reply,
    verdicts: reply.verdicts.map((value, i) => (i % 3 === which ? change(value) : value)),
  });

/** Whether it admits (a), when to come again (w), what remains (r), and when all is back (f). */
const PARTS: Readonly<Record<string, (reply: Reply) => Reply>> = {
  a: ({ verdicts: [wait, ...others], ban, ...reply }) => ({
    ...reply,
    ban: 0,
    verdicts: [wait === 0 && ban === 0 ? 1_000 : 0, ...others],
  }),
  w: each(0, (wait) => (wait > 0 ? wait + 1 : wait)),
  r: each(1, (remaining) => remaining + 1),
  f: each(2, (resetAfter) => resetAfter + 1),
};

/** The suites and checks by example: random ones ask something else each time. */
const isByExample = ({ suite, name }: Check) =>
  suite === 'contract' || /^(several dimensions: what|several dimensions: a ban|a name and a key)/.test(name);

const checksOf = (createStore: StoreUnderTest['createStore']) =>
  storeChecks({ createStore }).filter(isByExample);

/** Plays a check once for each part of each reply that it gets. Returns the parts that it minds, reply by reply. */
async function minded(name: string): Promise<string> {
  const play = async (at: number, part: string) => {
    let replies = 0;
    const createStore: StoreUnderTest['createStore'] = (clock) => {
      const right = memoryStore({ clock });
      const decide: Store['decide'] = (query) => {
        const reply = right.decide(query) as Reply;
        return replies++ === at ? PARTS[part]!(reply) : reply;
      };
      return {
        decide,
        adjust: (change) => right.adjust(change),
        lease: (change) => right.lease(change),
        reset: (subject) => right.reset(subject),
        ban: (subject, duration) => right.ban(subject, duration),
        checkDimensions: () => {},
      };
    };
    const check = checksOf(createStore).find((each) => each.name === name)!;
    const failed = await check.run().then(
      () => false,
      () => true,
    );
    return { replies, failed };
  };
  const found: string[] = [];
  const { replies } = await play(-1, '');
  for (let at = 0; at < replies; at++) {
    let parts = '';
    for (const part of Object.keys(PARTS)) if ((await play(at, part)).failed) parts += part;
    found.push(parts || '-');
  }
  return found.join(' ');
}

/** By check, of each reply, the parts that it minds. */
const CHECKS: Readonly<Record<string, string>> = {
  'every algorithm: admits the limit, then denies until retryAfter': 'ar ar ar aw aw a',
  'every algorithm: what was charged comes back when this algorithm says': '- r - r r r r r r',
  'every algorithm: charges a cost whole, or not at all': 'a ar ar ar',
  'every algorithm: peeks without writing': 'arf arf arf - a a a ar',
  'every algorithm: is back to its full quota after resetAfter, as if nothing had been': '- rf r',
  'every algorithm: resets one key, and no other': '- - - rf r',
  'every algorithm: burst is what can be spent at once': 'ar aw r',
  'leaky-bucket: maxDelay holds requests for their turn, and denies who would wait longer': 'a a a aw',
  'decides several policies together: all charge, or none does': '- r a',
  'lets a shadow report, but not deny': 'a a a',
  'shares state within a name, and with no other name or key': '- r r r',
  'keeps awkward keys apart': 'a '.repeat(164).trim(),
  'decides by other policies in the same scope': '- ar a',
  'every algorithm: gives back what was charged, once, and no more than there is': 'af - r r r r',
  'token-bucket: gives back what was charged, once, and no more than there is': 'a - r r r r',
  'leaky-bucket: gives back what was charged, once, and no more than there is': 'a - r r r r',
  'gcra: gives back what was charged, once, and no more than there is': 'a - r r r r',
  'every algorithm: gives back nothing of a window that is over': '- - r',
  'every algorithm: charges what a request really cost': 'af r r',
  'token-bucket: charges what a request really cost': 'a r r',
  'leaky-bucket: charges what a request really cost': 'a r r',
  'gcra: charges what a request really cost': 'a r r',
  'every algorithm: charges beyond what is left, for no longer than the window': 'a ar ar',
  'concurrency: holds slots until they are released or their lease ends': 'a a r r r',
  'concurrency: releases the slots of one request, and no others': 'a a r r',
  'bans after repeated denials, longer each time, and forgives when told to': '- a a a a - a a a - a',
  'bans by denials of one while only: those before `within` are forgotten': '- a a a',
  'bans by hand: one key, for as long as was said': 'a a a a',
  'several dimensions: what one key is reset, the others keep': '- r a a r',
  'several dimensions: a ban is of the key that it is by': '- - - - a a a a a',
  'a name and a key do not pose as another name and key': 'a a a a',
};

describe('the checks of a store by example', () => {
  const names = checksOf((clock) => memoryStore({ clock })).map(({ name }) => name);

  it('are these', () => {
    expect(names).to.have.length(93);
  });

  for (const name of names) {
    const parts = CHECKS[name] ?? CHECKS[name.replace(/^[a-z-]+: /, 'every algorithm: ')];
    it(`${name}: ${parts}`, async () => {
      expect(await minded(name)).to.equal(parts);
    });
  }
});
