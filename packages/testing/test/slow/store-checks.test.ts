// The parts of a reply that each check of a store depends on: each part of each reply is spoilt in turn, and the check must fail if it depends on the part.
import { expect } from 'chai';
import { memoryStore, type Store } from 'headgate';
import type { Reply } from 'headgate/stores';
import { storeChecks, type Check, type StoreUnderTest } from 'headgate-testing';

/** Changes one of the three numbers that each policy has in a reply. */
const each =
  (which: number, change: (value: number) => number) =>
  (reply: Reply): Reply => ({
    ...reply,
    verdicts: reply.verdicts.map((value, i) => (i % 3 === which ? change(value) : value)),
  });

/** The parts: admission (a), the time to come again (w), the remaining units (r), and the time of the full quota (f). */
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

/** The suites and checks by example. Random checks ask something else each time. */
const isByExample = ({ suite, name }: Check) => suite === 'contract' || EXAMPLES_OF_LAWS.test(name);
const EXAMPLES_OF_LAWS = new RegExp(
  [
    'several dimensions: (a reset|a ban)|a name and a key|a bucket that is raised',
    'a denial by a smaller tier|a charge of all remaining units|after a reset|two debts|the drained part of several',
    'a reset also (counts|covers)|the units of the charge',
  ].join('|'),
);

const checksOf = (createStore: StoreUnderTest['createStore']) =>
  storeChecks({ createStore }).filter(isByExample);

/** Plays a check once for each part of each of its replies. Returns the parts that make the check fail, reply by reply. */
async function sensitiveParts(name: string): Promise<string> {
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
  const parts: string[] = [];
  const { replies } = await play(-1, '');
  for (let at = 0; at < replies; at++) {
    let ofReply = '';
    for (const part of Object.keys(PARTS)) if ((await play(at, part)).failed) ofReply += part;
    parts.push(ofReply || '-');
  }
  return parts.join(' ');
}

/** The parts that each check depends on, for each of its replies. */
const CHECKS: Readonly<Record<string, string>> = {
  'every algorithm: admits the limit, then denies until retryAfter': 'ar ar ar aw aw a',
  'every algorithm: charged units become free at the published times': '- r - r r r r r r',
  'every algorithm: charges a cost whole, or not at all': 'a ar ar ar',
  'every algorithm: peeks without writing': 'arf arf arf - a a a ar',
  'every algorithm: has its full quota after resetAfter, as if nothing had been charged': '- rf r',
  'every algorithm: resets one key, and no other': '- - - rf r',
  'every algorithm: burst is the most that can be spent at once': 'ar aw r',
  'leaky-bucket: maxDelay holds requests until their turn, and denies requests that would wait longer':
    'a a a aw',
  'decides several policies together: all are charged, or none is': '- r a',
  'lets a shadow report, but not deny': 'a a a',
  'shares state within a name, and with no other name or key': '- r r r',
  'keeps awkward keys apart': 'a '.repeat(174).trim(),
  'keeps long keys apart, whatever their length': 'a a a a',
  'decides by other policies in the same scope': '- ar a',
  'every algorithm: gives a charge back, once, and no more than there is': 'a - r r r r',
  'token-bucket: gives a charge back, once, and no more than there is': 'a - r r r r',
  'leaky-bucket: gives a charge back, once, and no more than there is': 'a - r r r r',
  'gcra: gives a charge back, once, and no more than there is': 'a - r r r r',
  'every algorithm: gives back nothing of a window that is over': '- - r',
  'every algorithm: charges the real cost of a request': 'a r r',
  'token-bucket: charges the real cost of a request': 'a r r',
  'leaky-bucket: charges the real cost of a request': 'a r r',
  'gcra: charges the real cost of a request': 'a r r',
  'every algorithm: charges beyond the remaining units, for no longer than the window': 'a ar ar',
  'concurrency: holds slots until they are released or their lease ends': 'a a r r r',
  'concurrency: releases the slots of one request, and no others': 'a a r r',
  'bans after repeated denials, longer each time, and forgives after unban': '- a a a a - a a a - a',
  'counts denials only for `within`: older ones do not lead to a ban': '- a a a',
  'bans one key by hand, for the given time': 'a a a a',
  'a ban by hand replaces an earlier one, even a longer one': 'a a a',
  'bans one key by hand, for as long as a year': 'a',
  'several dimensions: a reset of one key leaves the others alone': '- r a a r',
  'several dimensions: a ban applies to the key of its dimension': '- - - - - a - - - a a a - a a',
  'a name and a key do not pose as another name and key': 'a a a a a a a',
  'a bucket that is raised a hundredfold admits at once a request that was to wait a minute': '- aw a',
  'every algorithm: a denial by a smaller tier gives nothing back to a larger one': '- a r',
  'every algorithm: after a reset, a refund gives back nothing of later charges': '- a r r - a r r',
  'token-bucket: after a reset, a refund gives back nothing of later charges': '- a r r - a r r',
  'leaky-bucket: after a reset, a refund gives back nothing of later charges': '- a r r - a r r',
  'gcra: after a reset, a refund gives back nothing of later charges': '- a r r - a r r',
  'every algorithm: a charge of all remaining units, or more, is given back completely': 'a r r a r r',
  'every algorithm: two debts are given back independently': 'a a r r',
  'every algorithm: the drained part of several charges is gone, whichever charge is given back':
    'a - - r a - - r',
  'every algorithm: a reset also counts if there was nothing to reset': '- - r',
  'a reset also covers the tiers': '- r',
  'sliding-log: the units of the charge are given back, not the oldest': '- a r',
};

describe('the checks of a store by example', () => {
  const names = checksOf((clock) => memoryStore({ clock })).map(({ name }) => name);

  it('are complete in the list above', () => {
    expect(names).to.have.length(127);
  });

  for (const name of names) {
    const parts = CHECKS[name] ?? CHECKS[name.replace(/^[a-z-]+: /, 'every algorithm: ')];
    it(name, async () => {
      expect(await sensitiveParts(name)).to.equal(parts);
    });
  }
});

const BUCKETS = ['token-bucket', 'leaky-bucket', 'gcra'] as const;
const QUOTAS = ['fixed-window', 'sliding-window', 'sliding-log', ...BUCKETS, 'calendar'] as const;
const ALL = [...QUOTAS, 'concurrency'] as const;

/** The remaining checks, by suite, with the algorithms that each check covers. No check mixes algorithms. */
const LAWS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'law 1, bound': {
    'no client gets more than the published bound': ALL,
    'bursts at the worst moments reach 199 at limit 100': ['fixed-window', 'token-bucket'],
    'a client that returns at retryAfter gets the limit in each window': QUOTAS,
    'bursts at the worst moments reach 100 at limit 100': ['sliding-window', 'sliding-log'],
    'several dimensions: no key of any of them gets more than the published bound': [],
  },
  'law 2, retry': {
    'denied at every instant before retryAfter, admitted at it': ALL,
    'the full quota is back at resetAfter, and not before': ALL,
    'a cost beyond capacity is never admitted, and reported as such': ALL,
    'several policies: retryAfter is the longest of the denying ones': [],
    'several dimensions: denied until retryAfter, admitted at it': [],
  },
  'law 3, charge': {
    'after a denial, every policy is as it was': [],
    'after an admission, every policy that admits is charged, and a shadow that would deny is not': [],
    'a cost of 0 and a peek charge and write nothing': [],
    'several dimensions: a denial charges no key, an admission each of them, and a refund undoes the charge':
      [],
    'several dimensions: a reset of one key leaves the others alone': [],
    'several dimensions: a ban applies to the key of its dimension': [],
  },
  'law 5, life': {
    'expired state decides exactly as no state': [],
  },
  'law 6, clock': {
    'whatever the clock does, a unit is free within one window': ALL,
    'a ban never lasts longer than it was made for': [],
  },
  'law 7, race': {
    'simultaneous requests: exactly the limit is admitted, and each gets its own remaining': ALL,
    'simultaneous charges, refunds and bans all take effect': ALL,
    'several dimensions: of simultaneous requests, each key gets exactly its limit': [],
  },
  'law 9, keys': {
    'each of many awkward keys has its own quota, by every algorithm': [],
    'spending, resetting and banning one key leaves the others alone': [],
    'a name and a key do not pose as another name and key': [],
    'policies of different names do not share, even if only their case differs': [],
    'limiters of different names do not share, whatever the names and keys': [],
  },
  'law 12, change': {
    'each configuration keeps to its own bound, whichever is asked': QUOTAS,
    'denials and looks leave no trace for any configuration': ALL,
    'the wait of a configuration is exact, and at most its window': ALL,
    'a higher limit, rate or burst never means a longer wait': ALL,
    'sliding-log 20/1m beside 100/1m: a client of both gains nothing, and neither locks the other out': [],
    'sliding-window 10/1m beside 100/10s: a client of both gains nothing, and neither locks the other out':
      [],
    'sliding-window 100/1m beside 100/30s: a client of both gains nothing, and neither locks the other out':
      [],
    'sliding-window, other segments: a client of both gains nothing, and neither locks the other out': [],
    'token-bucket 100/1m beside 5/1s: a client of both gains nothing, and neither locks the other out': [],
    'token-bucket, another burst: a client of both gains nothing, and neither locks the other out': [],
    'fixed-window, another window: a client of both gains nothing, and neither locks the other out': [],
    'a bucket that is raised a hundredfold admits at once a request that was to wait a minute': [],
    'a denial by a smaller tier gives nothing back to a larger one': [
      'fixed-window',
      'sliding-window',
      'sliding-log',
      'calendar',
    ],
    'another dimension: each configuration keeps to its own bound, and locks no key out': [],
  },
  'law 13, return': {
    'a charge that is given back counts as never made': QUOTAS,
    'a charge that has partly drained gives back the rest, no more and no less': BUCKETS,
    'give-backs in any order never leave more than without the charges': BUCKETS,
    'after a reset, a refund gives back nothing of later charges': QUOTAS,
    'a charge of all remaining units, or more, is given back completely': QUOTAS,
    'two debts are given back independently': ['fixed-window', 'sliding-window', 'sliding-log', 'calendar'],
    'the drained part of several charges is gone, whichever charge is given back': BUCKETS,
    'a reset also counts if there was nothing to reset': BUCKETS,
    'a reset also covers the tiers': [],
    'the units of the charge are given back, not the oldest': ['sliding-log'],
    'gives back a unit from anywhere in a long log, and moves no other': ['sliding-log'],
  },
  'law 16, live': {
    'another limit is in force at once, and spent units stay spent': ALL,
    'charges are given back whole across an override': ALL,
    'an override ends at its time': ALL,
    'an override of all keys can be read back, and is of one limiter': [],
    'an override of another window, or to another tier, is in force at once': [],
    'a reset leaves an override as it is': [],
    'an override holds in a process with other policies, after a deployment': [],
    'random overrides, requests and give-backs are as of a memory store': ALL.filter(
      (algorithm) => !(BUCKETS as readonly string[]).includes(algorithm),
    ),
  },
  'law 4, identity': {
    'random traces': ALL,
    'random traces on a clock that jumps': ALL,
    'mixed algorithms: random traces': [],
    'mixed algorithms: random traces on a clock that jumps': [],
    'keys of several dimensions: random traces': [],
    'simultaneous calls are answered like successive ones': [],
  },
};

describe('the checks of a store by laws', () => {
  const namesFor = (more: Partial<StoreUnderTest>) =>
    storeChecks({ createStore: (clock) => memoryStore({ clock }), ordered: true, ...more })
      .filter(({ suite }) => suite !== 'contract')
      .map(({ suite, name }) => `${suite}: ${name}`);
  const all = Object.entries(LAWS).flatMap(([suite, checks]) =>
    Object.entries(checks).flatMap(([name, algorithms]) =>
      algorithms.length === 0
        ? `${suite}: ${name}`
        : algorithms.map((algorithm) => `${suite}: ${algorithm}: ${name}`),
    ),
  );

  it('are complete in the list above', () => {
    expect(namesFor({})).to.have.members(all);
  });

  const ofBan = 'law 3, charge: several dimensions: a ban applies to the key of its dimension';
  const fewer: readonly (readonly [
    title: string,
    more: Partial<StoreUnderTest>,
    isLeftOut: (name: string) => boolean,
  ])[] = [
    [
      'that does not keep an order',
      { ordered: false },
      (name) => name.includes('simultaneous calls are answered like'),
    ],
    ['without overrides', { overrides: false }, (name) => name.startsWith('law 16')],
    ['without dimensions', { dimensions: false }, (name) => /(several|another) dimension/.test(name)],
    ['across slots', { dimensions: { acrossSlots: true } }, (name) => name === ofBan],
    [
      'of servers by a dimension',
      { dimensions: { slotBy: 'org' } },
      (name) => name === ofBan || name.endsWith('a reset of one key leaves the others alone'),
    ],
  ];
  for (const [title, more, isLeftOut] of fewer)
    it(`are fewer for a store ${title}`, () => {
      const names = namesFor(more).filter((name) => !name.includes('refuses a store without them'));
      expect(names).to.have.members(all.filter((name) => !isLeftOut(name)));
    });
});
