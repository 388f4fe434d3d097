// Law 11, for a memory store that is full of denied and banned keys: bans by hand hold, `onFull` decides, and a warning reports it.
import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import fc from 'fast-check';
import { createLimiter, memoryStore, type CreateLimiterOptions, type MemoryStoreOptions } from 'headgate';
import { denial, rateLimitHeaders } from 'headgate/http';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { limiterOn, TestClock } from '../support/stores.js';

const MAX_KEYS = 100;
const SECOND = 1000;
const HOUR = 3_600 * SECOND;

function open(policy: CreateLimiterOptions, options: MemoryStoreOptions = {}) {
  const clock = new TestClock();
  const store = memoryStore({ clock: clock.read, maxKeys: MAX_KEYS, ...options });
  return { clock, store, limiter: limiterOn(store, { ban: {}, ...policy }) };
}

type Opened = ReturnType<typeof open>;

/** Fills the store with keys that have no units left, one key a second. */
async function fill({ clock, limiter }: Opened, count = MAX_KEYS) {
  for (let i = 0; i < count; i++) {
    while ((await limiter.consume(`denied ${i}`)).remaining > 0);
    clock.now += SECOND;
  }
}

async function reasonsOf({ limiter }: Opened, prefix: string, count = MAX_KEYS) {
  const reasons = [];
  for (let i = 0; i < count; i++) reasons.push((await limiter.peek(`${prefix} ${i}`)).reason);
  return reasons;
}

const ONE = { algorithm: 'fixed-window', limit: 1, window: '1h' } as const;

describe('law 11, bans by hand on a full memory store', () => {
  it('evict the denied key that is free soonest, one a ban', async () => {
    const opened = open(ONE);
    const { store, limiter } = opened;
    await fill(opened);
    for (let bans = 1; bans <= 3; bans++) {
      await limiter.ban(`attacker ${bans}`, '24h');
      expect(await limiter.peek(`attacker ${bans}`)).to.include({
        reason: 'banned',
        retryAfterMs: 24 * HOUR,
      });
      const free = (await reasonsOf(opened, 'denied')).map((reason) => reason !== 'quota-exceeded');
      expect(free.lastIndexOf(true), 'those that were denied first').to.equal(bans - 1);
      expect(free.filter(Boolean)).to.have.lengthOf(bans);
      expect(store.size).to.equal(MAX_KEYS);
    }
  });

  it('evict a key that is banned by denials only if no key is merely denied', async () => {
    const opened = open({ ...ONE, ban: { after: 1, for: '1m' } });
    const { clock, limiter } = opened;
    await fill(opened);
    const start = clock.now;
    for (let i = 0; i < MAX_KEYS; i += 2) await limiter.consume(`denied ${i}`);
    for (let i = 0; i < MAX_KEYS / 2; i++) await limiter.ban(`attacker ${i}`, '2m');
    const expected = Array.from({ length: MAX_KEYS }, (_, i) => (i % 2 === 0 ? 'banned' : 'store-full'));
    expect(await reasonsOf(opened, 'denied')).to.deep.equal(expected);
    await limiter.ban('attacker 50', '2m');
    expect((await reasonsOf(opened, 'denied')).filter((reason) => reason === 'banned')).to.have.lengthOf(49);
    expect(clock.now).to.equal(start);
  });

  it('evict a ban by hand only if all keys have one, and then the ban that ends first', async () => {
    const opened = open(ONE);
    const { clock, store, limiter } = opened;
    for (let i = 0; i < MAX_KEYS; i++) await limiter.ban(`banned ${i}`, `${1 + ((i + 50) % MAX_KEYS)}h`);
    await limiter.ban('one more', '1s');
    const reasons = await reasonsOf(opened, 'banned');
    expect(reasons.indexOf('store-full')).to.equal(50);
    expect(reasons.filter((reason) => reason === 'banned')).to.have.lengthOf(MAX_KEYS - 1);
    expect((await limiter.peek('one more')).reason).to.equal('banned');
    expect(store.health!.unremembered, 'it is told').to.equal(1);
    clock.now += SECOND;
    await limiter.ban('yet another', '1h');
    expect((await reasonsOf(opened, 'banned')).filter((reason) => reason !== 'banned')).to.have.lengthOf(1);
  });

  it('distinguish a ban by denials from an earlier ban of the same key by hand', async () => {
    const { clock, limiter } = open({ ...ONE, ban: { after: 1, for: '24h' } });
    await limiter.ban('abuser', '1s');
    clock.now += SECOND;
    for (let i = 0; i < 2; i++) await limiter.consume('abuser');
    for (let i = 1; i < MAX_KEYS; i++) await limiter.ban(`banned ${i}`, '1h');
    expect((await limiter.peek('abuser')).reason).to.equal('banned');
    await limiter.ban('one more', '1h');
    expect((await limiter.peek('abuser')).reason).to.equal('store-full');
  });

  it('hold for a known key, without room for another key', async () => {
    const opened = open(ONE);
    const { limiter } = opened;
    await fill(opened);
    await limiter.ban('denied 7', '24h');
    const reasons = await reasonsOf(opened, 'denied');
    expect(reasons.filter((reason) => reason === 'quota-exceeded')).to.have.lengthOf(MAX_KEYS - 1);
    expect(reasons[7]).to.equal('banned');
  });

  it('are ended without room: unban of an unknown key evicts nothing', async () => {
    const opened = open({ ...ONE, limit: 2 });
    const { store, limiter } = opened;
    for (let i = 0; i < MAX_KEYS; i++) await limiter.consume(`known ${i}`);
    for (let i = 0; i < MAX_KEYS; i++) await limiter.unban(`unknown ${i}`);
    for (let i = 0; i < MAX_KEYS; i++) expect((await limiter.peek(`known ${i}`)).remaining).to.equal(1);
    await limiter.reset('known 0');
    expect(store.size).to.equal(MAX_KEYS);
    expect(store.health!.unremembered).to.equal(0);
  });

  it('always hold until they end, whatever requests follow, and fresh keys free no denied key', () =>
    fc.assert(
      fc.asyncProperty(
        fc.constantFrom('admit', 'deny'),
        fc.array(
          fc.record({
            what: fc.constantFrom('ban', 'ban', 'unban', 'exhaust', 'exhaust', 'exhaust', 'flood', 'wait'),
            who: fc.nat(150),
            time: fc.integer({ min: 1, max: 4000 }),
          }),
          { minLength: 20, maxLength: 400 },
        ),
        async (onFull, steps) => {
          const { clock, store, limiter } = open({ ...ONE, window: '1m' }, { onFull });
          const bans = new Map<string, number>();
          const denied = new Map<string, number>();
          let fresh = 0;
          const check = async () => {
            for (const [key, end] of bans) {
              const retryAfterMs = end - clock.now;
              if (retryAfterMs > 0)
                expect(await limiter.peek(key)).to.include({ reason: 'banned', retryAfterMs });
            }
            for (const [key, end] of denied)
              if (end > clock.now) expect((await limiter.peek(key)).reason).to.equal('quota-exceeded');
          };
          for (const { what, who, time } of steps) {
            const key = `key ${who}`;
            if (what === 'wait') clock.now += time;
            else if (what === 'unban') {
              await limiter.unban(key);
              bans.delete(key);
            } else if (what === 'ban' && (bans.size < MAX_KEYS || bans.has(key))) {
              const { size } = store;
              await limiter.ban(key, time * 100);
              bans.set(key, clock.now + time * 100);
              // One of the denied keys may have been evicted.
              if (size === MAX_KEYS) denied.clear();
            } else if (what === 'exhaust') {
              const decision = await limiter.consume(`denied ${who}`);
              if (decision.reason === undefined)
                denied.set(`denied ${who}`, clock.now + decision.resetAfterMs);
            } else if (what === 'flood') {
              for (let i = 0; i < 50; i++) await limiter.consume(`fresh ${fresh++}`, { cost: 1 });
            }
            expect(store.size).to.be.at.most(MAX_KEYS);
            if (what === 'flood') await check();
          }
          await check();
        },
      ),
      runs('memory', 40, 0),
    ));

  it('hold in a large store, by looking at some of its keys', async () => {
    const opened = open(ONE, { maxKeys: 20_000 });
    const { store, limiter } = opened;
    for (let i = 0; i < 20_000; i++) await limiter.consume(`denied ${i}`);
    for (let i = 0; i < 200; i++) await limiter.ban(`attacker ${i}`, '24h');
    expect(await reasonsOf(opened, 'attacker', 200)).to.deep.equal(new Array(200).fill('banned'));
    const reasons = await reasonsOf(opened, 'denied', 20_000);
    expect(reasons.filter((reason) => reason !== 'quota-exceeded')).to.have.lengthOf(200);
    expect(store.size).to.equal(20_000);
  });

  it('find the one key of a large store that is not banned by hand', async () => {
    const { store, limiter } = open(ONE, { maxKeys: 20_000 });
    for (let i = 0; i < 20_000; i++) {
      if (i === 12_345) await limiter.consume('denied');
      else await limiter.ban(`banned ${i}`, '1h');
    }
    await limiter.ban('one more', '2h');
    expect((await limiter.peek('denied')).reason).to.equal('store-full');
    expect((await limiter.peek('one more')).reason).to.equal('banned');
    expect(store.size).to.equal(20_000);
  });
});

describe('law 11, new keys on a full memory store', () => {
  for (const algorithm of algorithms) {
    it(`${algorithm}: 'admit' charges nothing, and reports it`, () =>
      fc.assert(
        fc.asyncProperty(policyOf(algorithm, { limits: [1, 2, 5], windows: [HOUR] }), async (policy) => {
          const opened = open(policy);
          const { limiter } = opened;
          await fill({ ...opened, clock: new TestClock() });
          const untouched = limiterOn(memoryStore({ clock: opened.clock.read }), policy);
          for (let i = 0; i < 20; i++) {
            const decision = await limiter.consume('new');
            const { policies } = decision;
            expect(decision).to.include({ allowed: true, reason: 'store-full', charged: 0, retryAfterMs: 0 });
            expect(policies, 'what is there').to.deep.equal((await untouched.peek('new')).policies);
            expect(await decision.release()).to.be.false;
            await decision.cancel();
          }
          expect(limiter.health).to.include({ state: 'up', unremembered: 20 });
          expect(untouched.health.unremembered).to.equal(0);
          // A cost above the capacity is denied as usual.
          expect((await limiter.consume('new', { cost: 1000 })).reason).to.equal('cost-exceeds-capacity');
        }),
        runs('memory', 3, 0),
      ));
  }

  it("'deny' denies a new key until there may be room, and then admits and counts it", async () => {
    const opened = open(ONE, { onFull: 'deny' });
    const { clock, limiter } = opened;
    await fill(opened);
    const denied = await limiter.consume('new');
    expect(denied).to.include({
      allowed: false,
      reason: 'store-full',
      charged: 0,
      remaining: 1,
      degraded: false,
    });
    // The store has looked at 64 keys. One of them makes room then, and another may make room earlier.
    expect(denied.retryAfterMs).to.be.within(HOUR - 100 * SECOND, HOUR - 64 * SECOND);
    clock.now += denied.retryAfterMs!;
    const admitted = await limiter.consume('new');
    expect(admitted).to.include({ allowed: true, reason: undefined, remaining: 0 });
    expect((await limiter.consume('new')).reason).to.equal('quota-exceeded');
  });

  it("'deny': there is room at the announced time, however many earlier requests got the same time", async () => {
    const opened = open(ONE, { onFull: 'deny' });
    await fill(opened);
    const { clock, limiter } = opened;
    const retryTimes = [];
    for (let i = 0; i < 20; i++) retryTimes.push((await limiter.consume(`new ${i}`)).retryAfterMs!);
    expect(retryTimes).to.deep.equal(retryTimes.toSorted((a, b) => b - a));
    clock.now += retryTimes.at(-1)!;
    expect((await limiter.consume('new')).allowed).to.be.true;
  });

  it("'deny' returns a wait of at least a second, and never less than the time until the first of the bans that it has seen ends", async () => {
    const { clock, limiter } = open(ONE, { onFull: 'deny' });
    for (let i = 0; i < MAX_KEYS; i++) await limiter.ban(`banned ${i}`, 10_000);
    expect((await limiter.consume('new')).retryAfterMs).to.equal(10_000);
    clock.now += 9_500;
    expect((await limiter.consume('new')).retryAfterMs).to.equal(1000);
    clock.now += 500;
    expect((await limiter.consume('new')).allowed).to.be.true;
  });

  it('a look returns the answer of a request, and changes nothing', async () => {
    for (const onFull of ['admit', 'deny'] as const) {
      const opened = open(ONE, { onFull });
      await fill(opened);
      const { clock, limiter } = opened;
      clock.now += HOUR - 90 * SECOND;
      for (let i = 0; i < 200; i++) {
        const looked = await limiter.peek(`new ${i}`);
        const { allowed, reason, retryAfterMs } = await limiter.consume(`new ${i}`);
        expect(looked).to.include({ allowed, reason, retryAfterMs });
      }
      expect((await limiter.consume('another', { cost: 0 })).reason).to.equal(undefined);
    }
  });

  it("'deny' does not deny for shadow limiters or shadow policies, and reports the denial that it would make", async () => {
    const { clock, store, limiter } = open(ONE, { onFull: 'deny' });
    await fill({ clock, store, limiter });
    const watched = limiter.compile([{ ...ONE, shadow: true }]);
    expect(await limiter.decide('new', 1, watched)).to.include({ allowed: true, reason: 'store-full' });

    const shadow = createLimiter({
      store: memoryStore({ maxKeys: MAX_KEYS, onFull: 'deny' }),
      ...ONE,
      shadow: true,
    });
    for (let i = 0; i < MAX_KEYS; i++) await shadow.consume(`key ${i}`);
    const would = await shadow.consume('new');
    expect(would).to.include({ allowed: true, reason: 'store-full', charged: 0 });
    expect(would.retryAfterMs).to.be.greaterThan(1000);
  });

  it("over HTTP 'deny' is a 503 with Retry-After, and 'admit' shows a full quota", async () => {
    const opened = open(ONE, { onFull: 'deny' });
    await fill(opened);
    const decision = await opened.limiter.consume('new');
    const { status, headers, body } = denial(decision);
    const retryAfter = String(Math.ceil(decision.retryAfterMs! / 1000));
    expect(status).to.equal(503);
    expect(headers).to.include({ 'Retry-After': retryAfter, 'RateLimit-Reset': retryAfter });

    const admitting = open(ONE);
    await fill(admitting);
    const fields = rateLimitHeaders(await admitting.limiter.consume('new'));
    expect(fields).to.include({ 'RateLimit-Remaining': '1', 'RateLimit-Reset': '0' });
    expect(body).to.contain('temporary-reduced-capacity');
  });

  it("'deny': a waiting call asks again after a while, and not all the time", async () => {
    const opened = open(ONE, { onFull: 'deny' });
    await fill(opened);
    const { clock, limiter } = opened;
    const before = limiter.health.unremembered!;
    const waiting = limiter.wait('new');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(limiter.health.unremembered! - before).to.be.within(1, 10);
    clock.now += HOUR;
    expect(await waiting).to.include({ allowed: true, reason: undefined });
  });

  it('one limiter that is full takes no room from another of the same store', async () => {
    const opened = open({ ...ONE, name: 'full' }, { onFull: 'deny' });
    await fill(opened);
    const other = limiterOn(opened.store, { ...ONE, name: 'other' });
    expect(await other.consume('new')).to.include({ allowed: true, reason: undefined });
    expect((await opened.limiter.consume('new')).allowed).to.be.false;
  });

  it('emits one process warning with a code', () => {
    const program = `
      import { createLimiter, memoryStore } from 'headgate';
      process.on('warning', ({ name, code }) => console.log(name, code));
      for (const name of ['a', 'b']) {
        const limiter = createLimiter({ name, store: memoryStore({ maxKeys: 100 }), limit: 1, window: '1h' });
        for (let i = 0; i < 100; i++) await limiter.consume('key ' + i);
        console.log('full');
        for (let i = 0; i < 5; i++) await limiter.consume('new');
        await new Promise(setImmediate);
      }`;
    const { stdout } = spawnSync(
      process.execPath,
      [...TYPESCRIPT, '--input-type=module', '--eval', program],
      { encoding: 'utf8' },
    );
    expect(stdout.trim().split('\n')).to.deep.equal(['full', 'HeadgateWarning HEADGATE_STORE_FULL', 'full']);
  });
});
