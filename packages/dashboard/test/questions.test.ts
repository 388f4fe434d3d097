// Visitors that only read cannot load the application by questions about keys and about the log.
import type { IncomingMessage } from 'node:http';
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { createAdmin, type Admin } from 'headgate/admin';
import { Answers } from '../src/answers.js';
import { Judges } from '../src/judges.js';
import { KeyQuestions } from '../src/key-questions.js';
import { webRequest } from '../src/node.js';
import { Turns } from '../src/turns.js';
import { visitorOf } from '../src/visitors.js';
import { callerOf } from './caller.js';

const here = () => false;
const shown = (key: unknown) => key as never;

describe('questions about keys', () => {
  /** An administration that answers after some time, and records the questions. */
  const slowAdmin = () => {
    const seen = { running: 0, most: 0, keys: [] as string[], signals: [] as (AbortSignal | undefined)[] };
    const ask = async (key: string, { signal }: { signal?: AbortSignal } = {}) => {
      seen.keys.push(key);
      seen.signals.push(signal);
      seen.most = Math.max(seen.most, ++seen.running);
      await new Promise((resolve) => setTimeout(resolve, 10));
      seen.running--;
      return [];
    };
    const log = async function* () {};
    return { seen, admin: { key: ask, denials: ask, log, isCounted: true } as unknown as Admin };
  };

  it('about denied keys of the screen never search all keys', async () => {
    const { seen, admin } = slowAdmin();
    await new Judges(admin).of('unpublished', { key: 'ada' });
    expect(seen.signals.map((signal) => signal?.aborted)).to.deep.equal([true]);
  });

  it('are asked one at a time, with a bound, and once for all visitors', async () => {
    const { seen, admin } = slowAdmin();
    const questions = new KeyQuestions(admin, shown);
    await Promise.all([
      ...['ada', 'bob', 'ada'].map((key) => questions.key({ key }, here)),
      ...['ada', 'ada'].map((key) => questions.past({ key }, here)),
    ]);
    await questions.key({ key: 'ada' }, here);
    expect(seen.keys).to.deep.equal(['ada', 'bob', 'ada']);
    expect(seen.most).to.equal(1);
    expect(seen.signals.every((signal) => signal instanceof AbortSignal)).to.equal(true);
    await questions.key({ key: 'ada', dimension: 'account' }, here);
    // A change shows at once.
    questions.expire();
    await questions.key({ key: 'ada' }, here);
    expect(seen.keys.slice(3)).to.deep.equal(['ada', 'ada']);
  });

  it('are refused in words while many others wait', async () => {
    const { seen, admin } = slowAdmin();
    const questions = new KeyQuestions(admin, shown);
    const keys = Array.from({ length: 40 }, (_, i) => `user:${i}`);
    const answers = await Promise.allSettled(keys.map((key) => questions.key({ key }, here)));
    const refused = answers.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
    expect(refused.length).to.be.within(28, 30);
    expect(refused[0]).to.include({ status: 503 });
    expect(refused[0]).to.have.property('message').that.contains('Try again in a few seconds');
    expect(seen.keys).to.have.length(40 - refused.length);
    await questions.key({ key: 'later' }, here);
  });

  it('are dropped at their turn if all their visitors have left', async () => {
    const { seen, admin } = slowAdmin();
    const questions = new KeyQuestions(admin, shown);
    let isGone = false;
    const leaving = () => isGone;
    const answers = [
      questions.key({ key: 'first' }, here),
      questions.key({ key: 'left' }, leaving),
      questions.key({ key: 'shared' }, leaving),
      questions.key({ key: 'shared' }, here),
    ];
    isGone = true;
    const settled = await Promise.allSettled(answers);
    expect(settled.map(({ status }) => status)).to.deep.equal([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ]);
    expect(seen.keys).to.deep.equal(['first', 'shared']);
  });

  it('are not answered again within a moment, except after a failure', async () => {
    const answers = new Answers<number>(10_000, new Turns(10));
    let asked = 0;
    const failing = () => (asked++, Promise.reject(new Error('down')));
    for (let i = 0; i < 2; i++)
      expect(await answers.get('a', failing, here).catch((error: Error) => error.message)).to.equal('down');
    const ask = () => Promise.resolve(++asked);
    expect([await answers.get('a', ask, here), await answers.get('a', ask, here)]).to.deep.equal([3, 3]);
  });
});

describe('the search for the shared limits of a key', () => {
  let limiter: Limiter;
  let admin: Admin;
  beforeEach(async () => {
    const store = memoryStore();
    const policies = ['tokens=100/1m by provider share tenant'];
    limiter = createLimiter({ store, name: 'api', policies });
    // In memory, keys have names from the first administration on.
    admin = createAdmin(store);
    for (let i = 0; i < 1200; i++) await limiter.consume({ provider: `p${i}`, tenant: 'acme' });
  });
  afterEach(() => limiter.close());

  it('ends with its signal, and the views have a warning', async () => {
    const whole = await admin.key('acme');
    expect(whole.filter(({ within }) => within !== undefined)).to.have.length(200);
    const codes = (views: typeof whole) => views.flatMap(({ warnings }) => warnings.map(({ code }) => code));
    expect(codes(whole)).to.not.include('CUT');
    const cut = await admin.key('bob', { signal: AbortSignal.abort() });
    expect(cut.map(({ dimension }) => dimension)).to.deep.equal(['provider']);
    expect(codes(cut)).to.deep.equal(['CUT']);
    expect(await admin.denials('bob', { signal: AbortSignal.abort() })).to.deep.equal([]);
  });
});

describe('questions about the log', () => {
  it('are refused for names of limiters that do not exist, and asked once for all visitors', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {} });
    await limiter.ban('ada', '1h');
    const page = await callerOf({ store, auth: 'none', actions: () => null });
    expect((await page.get('api/log?name=invented&since=all')).status).to.equal(404);
    const first = page.get('api/log?name=api');
    const answers = await Promise.all([first, page.get('api/log?name=api'), page.get('api/log')]);
    expect(answers.map(({ body }) => (body['rows'] as unknown[]).length)).to.deep.equal([1, 1, 1]);
    await limiter.ban('bob', '1h');
    expect((await page.get('api/log?name=api')).body).to.deep.equal((await first).body);
    await limiter.close();
  });
});

describe('a visitor', () => {
  it('has left when its request is aborted, or the connection of its request is closed', async () => {
    const stop = new AbortController();
    const hasLeft = visitorOf(new Request('http://page/', { signal: stop.signal }));
    expect(hasLeft()).to.equal(false);
    stop.abort();
    expect(hasLeft()).to.equal(true);
    const socket = { destroyed: false };
    const incoming = { headers: {}, method: 'GET', socket } as unknown as IncomingMessage;
    const onNode = visitorOf(await webRequest(incoming, '/', false));
    expect(onNode()).to.equal(false);
    socket.destroyed = true;
    expect(onNode()).to.equal(true);
  });
});
