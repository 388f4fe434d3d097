// The checks of drawn sites with processes find a fault of each kind in records, and none in correct records.
import { join } from 'node:path';
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import type { DrawnLimiter } from '../oracle/draw.js';
import type { Ban, Policy } from '../oracle/model/types.js';
import { checkBounds } from '../oracle/processes/check-bounds.js';
import { checkBans, checkOverrides } from '../oracle/processes/check-changes.js';
import { checkIds, checkLedger } from '../oracle/processes/check-charges.js';
import { checkThresholds } from '../oracle/processes/check-thresholds.js';
import { checkWaits } from '../oracle/processes/check-waits.js';
import { play, Spares } from '../oracle/processes/play.js';
import type { Answer, Asked, Entry, Report } from '../oracle/processes/record.js';
import { LEDGER } from '../oracle/processes/site.js';
import type { ProcessSite } from '../oracle/processes/task.js';
import { makeDirectory } from '../support/sqlite.js';

const siteWith = (policy: Partial<Policy>, ban: Partial<Ban> = {}): ProcessSite => ({
  limiters: [
    {
      policies: [
        { name: 'p', algorithm: 'sliding-window', limit: 2, window: 300, by: 'key', ...policy },
        LEDGER,
      ],
      ...{
        tiers: {},
        shadow: false,
        overrides: true,
        idsFor: 600_000,
        repeats: 5,
        hasIds: true,
        refunds: false,
        onStoreError: 'throw',
      },
      ban: { within: 1000, for: 100, factor: 1, max: 1000, fresh: false, by: 'key', ...ban },
    } satisfies DrawnLimiter,
  ],
  resets: false,
});

/** The seed of a site whose limiters have ids. */
const SITE_WITH_IDS = 179;

let n = 0;
const entry = (call: Asked['call'], before: number, after: number, more: Partial<Entry> = {}): Entry => ({
  ...{ call, before, after, limiter: 0, keys: { key: 'a' }, process: `process ${n}`, n: n++ },
  ...more,
});

/** A request that a policy of the limit admitted. */
const admitted = (before: number, more: Partial<Entry> = {}, verdict = {}): Entry => {
  const shown = {
    name: 'p',
    key: 'a',
    allowed: true,
    limit: 2,
    remaining: 0,
    retryAfterMs: 0,
    resetAfterMs: 0,
  };
  const answer: Answer = {
    ...{ allowed: true, reason: undefined, retryAfterMs: 0, delayMs: 0, repeated: false, degraded: false },
    ...{ costs: { p: 1 }, policies: [{ ...shown, ...verdict }] },
  };
  return entry('consume', before, before + 1, { answer, ...more });
};

const faultOf = (faults: readonly string[], text: string) => {
  expect(faults).to.have.length(1);
  expect(faults[0]).to.contain(text);
};

describe('the checks of drawn sites with processes', () => {
  it('find a unit too many in a window of each algorithm, and not one after the window', () => {
    for (const [algorithm, most] of [
      ['sliding-window', 2],
      ['sliding-log', 2],
      ['fixed-window', 4],
      ['gcra', 4],
    ] as const) {
      const site = siteWith({ algorithm });
      const all = Array.from({ length: most }, (_, i) => admitted(i));
      expect(checkBounds(site, [...all, admitted(301)]), algorithm).to.deep.equal([]);
      faultOf(checkBounds(site, [...all, admitted(20)]), `at most ${most}`);
      // A refund makes room for another unit.
      const refund = entry('refund', 5, 6, { of: all[0]!.n, process: all[0]!.process });
      expect(checkBounds(site, [...all, refund, admitted(20)]), algorithm).to.deep.equal([]);
    }
  });

  it('find a slot too many, and not one that was released or whose lease ended', () => {
    const site = siteWith({ algorithm: 'concurrency' });
    const held = [admitted(0), admitted(1)];
    faultOf(checkBounds(site, [...held, admitted(200)]), '3 slots');
    expect(checkBounds(site, [...held, admitted(310)])).to.deep.equal([]);
    const released = entry('release', 100, 101, { of: held[0]!.n, process: held[0]!.process });
    expect(checkBounds(site, [...held, released, admitted(200)])).to.deep.equal([]);
  });

  it('find an id that is charged twice', () => {
    const first = admitted(0, { id: 'i' });
    expect(checkIds([first])).to.deep.equal([]);
    faultOf(checkIds([first, admitted(5, { id: 'i' })]), 'id i is charged 2 times');
  });

  it('find a charge that the ledger lacks, or has twice', async () => {
    const site = siteWith({});
    const charge = admitted(0, {}, { name: 'ledger', limit: 10_000 });
    const all = [{ ...charge, answer: { ...charge.answer!, costs: { ledger: 3 } } }];
    const faults = (used: number, more: readonly Entry[] = []) => {
      const usage = async ({ key }: { key: string }) => ({
        policies: [{ name: 'ledger', used: key === 'a' ? used : 0 }],
      });
      return checkLedger(site, [...all, ...more], [{ usage } as unknown as Limiter]);
    };
    expect(await faults(3)).to.deep.equal([]);
    faultOf(await faults(2), '2 units, expected 3 to 3');
    faultOf(await faults(6), '6 units, expected 3 to 3');
    // A killed process leaves both outcomes open.
    expect(await faults(4, [entry('consume', 5, Infinity)])).to.deep.equal([]);
    faultOf(await faults(5, [entry('consume', 5, Infinity)]), '5 units, expected 3 to 4');
  });

  it('find a ban and an override that a process does not know', () => {
    const site = siteWith({});
    const ban = entry('ban', 0, 5, { ms: 100 });
    faultOf(checkBans(site, [ban, admitted(10)]), 'a banned key is admitted');
    expect(checkBans(site, [ban, entry('unban', 6, 12), admitted(10)])).to.deep.equal([]);
    expect(checkBans(site, [ban, admitted(100)])).to.deep.equal([]);
    const usage = entry('usage', 0, 5, { bannedUntil: 55 });
    faultOf(checkBans(site, [usage, admitted(10)]), 'a banned key is admitted');
    expect(checkBans(site, [usage, admitted(50)])).to.deep.equal([]);
    const change = entry('override', 0, 5, { policy: 'p', limit: 6, ms: 100 });
    faultOf(checkOverrides(site, [change, admitted(10)]), 'the limit is 2, expected 6');
    faultOf(checkOverrides(site, [change, admitted(110, {}, { limit: 6 })]), 'the limit is 6, expected 2');
    expect(checkOverrides(site, [change, admitted(4), admitted(10, {}, { limit: 6 })])).to.deep.equal([]);
  });

  it('find slots too many under a fresh ban, because it keeps those of work that runs', () => {
    const site = siteWith({ algorithm: 'concurrency' }, { fresh: true, after: 1 });
    faultOf(checkBounds(site, [admitted(0), admitted(1), admitted(200)]), '3 slots');
  });

  it('find units and ids in a limiter in shadow, where a denial is admitted and charges nothing', () => {
    const { limiters, resets } = siteWith({});
    const site = { limiters: limiters.map((drawn) => ({ ...drawn, shadow: true })), resets };
    const denied = (before: number) => {
      const made = admitted(before, { id: 'i' });
      return { ...made, answer: { ...made.answer!, reason: 'quota-exceeded' } as Answer };
    };
    expect(checkIds([admitted(0, { id: 'i' }), denied(5), denied(6)])).to.deep.equal([]);
    expect(checkBounds(site, [admitted(0), admitted(1), denied(5)])).to.deep.equal([]);
    faultOf(checkBounds(site, [admitted(0), admitted(1), admitted(5)]), 'at most 2');
  });

  it('allow both outcomes of a ban and of a refund whose caller was killed before the answer', () => {
    const site = siteWith({});
    const ban = entry('ban', 0, Infinity, { ms: 100 });
    expect(checkBans(site, [ban, admitted(10)])).to.deep.equal([]);
    const long = entry('ban', 0, 5, { ms: 300 });
    const shorter = entry('ban', 20, Infinity, { ms: 100 });
    expect(checkBans(site, [long, shorter, admitted(130)])).to.deep.equal([]);
    faultOf(checkBans(site, [long, shorter, admitted(110)]), 'a banned key is admitted');
    const held = [admitted(0), admitted(1)];
    const refund = entry('refund', 5, Infinity, { of: held[0]!.n, process: held[0]!.process });
    expect(checkBounds(site, [...held, refund, admitted(20)])).to.deep.equal([]);
  });

  it('find a wait that is longer than a window, or until an override ends than that of all policies', () => {
    const site = siteWith({});
    const slow = { ...site.limiters[0]!.policies[0]!, name: 'q', window: 900 };
    const two = {
      ...site,
      limiters: [{ ...site.limiters[0]!, policies: [slow, ...site.limiters[0]!.policies] }],
    };
    const long = admitted(0, {}, { allowed: false, retryAfterMs: 1000 });
    const ends = entry('override', 0, 5, { policy: 'p', limit: 6, ms: 100 });
    faultOf(checkWaits(two, [long]), 'denies for 1000 ms');
    expect(checkWaits(two, [ends, long])).to.deep.equal([]);
    const longer = admitted(0, {}, { allowed: false, retryAfterMs: 1500 });
    faultOf(checkWaits(two, [ends, longer]), 'denies for 1500 ms');
    expect(checkWaits(site, [admitted(0, {}, { allowed: false, retryAfterMs: 330 })])).to.deep.equal([]);
    faultOf(checkWaits(site, [admitted(0, {}, { allowed: false, retryAfterMs: 500 })]), 'denies for 500 ms');
  });

  it('find thresholds that are reported twice, lost, or read again after their acknowledgement', () => {
    const site = siteWith({ thresholds: [1] });
    const crossing = (id: string, at: number) => ({
      ...{ id, at: new Date(at), name: 'l0', key: 'a', policy: 'p', threshold: 1 },
      ...{ used: 2, limit: 2, resetAfterMs: 300 },
    });
    const read: Report = { process: 'r', read: '1', at: 10 };
    const event = { limiter: 'l0', policy: 'p', key: 'a', threshold: 1, limit: 2 };
    const stream = [crossing('1', 0)];
    expect(checkThresholds(site, [], [read, { process: 'w', event, at: 1 }], stream)).to.deep.equal([]);
    faultOf(checkThresholds(site, [], [], stream), 'never read');
    const again: Report = { process: 's', read: '2', at: 300 };
    faultOf(checkThresholds(site, [], [read, again], [...stream, crossing('2', 200)]), 'is reported twice');
    expect(checkThresholds(site, [], [read, again], [...stream, crossing('2', 300)])).to.deep.equal([]);
    const two: Report[] = [1, 2].map((at) => ({ process: `w${at}`, event, at }));
    faultOf(checkThresholds(site, [], [read, ...two], stream), '2 reports, 1 in the stream');
    const late: Report[] = [
      { process: 'r', acked: '1', at: 12 },
      { process: 's', read: '1', at: 1100 },
    ];
    faultOf(checkThresholds(site, [], [read, ...late], stream), 'read again after its acknowledgement');
    // A read that began before the acknowledgement may have got it.
    const beside = { process: 's', read: '1', at: 11 };
    expect(checkThresholds(site, [], [read, late[0]!, beside], stream)).to.deep.equal([]);
    const ledger = { name: 'ledger', limit: 10_000, remaining: 9989 };
    const charge = admitted(0, {}, ledger);
    const counted = { ...charge, answer: { ...charge.answer!, costs: { ledger: 1 } } };
    faultOf(checkThresholds(site, [counted], [read], stream), 'ledger a 0.001 was crossed');
  });

  it('find a store that processes do not share, in a drawn site with processes', async function () {
    this.timeout(300_000);
    const spares = new Spares('unshared', 6);
    try {
      // Each process counts alone: what a key was charged does not add up, or an id is charged by both.
      const wanted = /ledger of l|is charged 2 times/;
      let found = '';
      // On a busy machine, a site has few calls in the time of a drawn one.
      for (let ms = 1600; ms <= 25_600 && !wanted.test(found); ms *= 2) {
        const place = ['unshared', join(makeDirectory(), 'site.db'), ''] as const;
        found = (await play(place, spares, SITE_WITH_IDS, ms)).faults.join('\n');
      }
      expect(found).to.match(wanted);
    } finally {
      await spares.stop();
    }
  });
});
