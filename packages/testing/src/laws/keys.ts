// Law 9. Any string is a key; different keys never share state.
import fc from 'fast-check';
import { plainPolicy } from '../algorithms.js';
import { expectEqual, expectFields, show } from '../expect.js';
import { AWKWARD } from '../keys.js';
import { list, pick } from '../random.js';
import { limiterOn, type Suite } from '../subject.js';

const CHARACTERS = ['{', '}', ':', '%', '#', '\0', 'a', '2', '5', '\ud83d', '\ude00', 'é'];

const anyKey = fc.oneof(
  pick(AWKWARD),
  list(0, 150, pick(CHARACTERS)).map((characters) => characters.join('')),
  list(0, 200, fc.nat(0xffff)).map((units) => String.fromCharCode(...units)),
);

const differentKeys = (minLength: number, maxLength: number) =>
  fc.uniqueArray(anyKey, { minLength, maxLength, size: 'max' });

export function lawOfKeys(suite: Suite): void {
  suite.add('each of many awkward keys has its own quota, by every algorithm', async (lab) => {
    const policies = suite.algorithms.map((each) => ({ ...plainPolicy(each, 1, 3_600_000), name: each }));
    const { limiter } = await lab.open({ policies });
    for (const allowed of [true, false])
      for (const key of AWKWARD) expectFields(show(key), await limiter.consume(key), { allowed });
  });

  suite.addRandom(
    'spending, resetting and banning one key leaves the others alone',
    differentKeys(2, 6),
    async ([one, ...others], lab) => {
      const { limiter } = await lab.open({ limit: 2, window: '1h', ban: {} });
      const untouched = async () => {
        for (const key of others)
          expectFields(show(key), await limiter.peek(key), { allowed: true, remaining: 1 });
      };
      for (const key of others) await limiter.consume(key);
      await limiter.consume(one!, { cost: 2 });
      await untouched();
      await limiter.reset(one!);
      await untouched();
      await limiter.ban(one!, '1h');
      await untouched();
      expectFields('the banned key', await limiter.peek(one!), { allowed: false });
    },
  );

  suite.add('a name and a key do not pose as another name and key', async (lab) => {
    const { store } = await lab.open({ limit: 1, window: '1h' });
    for (const [name, key] of [
      ['a', 'b:c'],
      ['a:b', 'c'],
      ['a%3ab', 'c'],
      ['a', 'b%3ac'],
      ['A', 'b:c'],
      [`${'a'.repeat(255)}x`, 'c'],
      [`${'a'.repeat(255)}y`, 'c'],
    ] as const) {
      const limiter = limiterOn(store, { name, limit: 1, window: '1h' });
      expectFields(`name ${name}, key ${key}`, await limiter.consume(key), { allowed: true });
    }
  });

  suite.add('policies of different names do not share, even if only their case differs', async (lab) => {
    const { limiter } = await lab.open({ policies: ['a=5/1h', 'A=5/1h'] });
    await limiter.consume('key', { cost: { a: 3, A: 1 } });
    const left = (await limiter.peek('key')).policies.map(({ remaining }) => remaining);
    expectEqual('remaining', left, [2, 4]);
  });

  suite.addRandom(
    'limiters of different names do not share, whatever the names and keys',
    fc.tuple(anyKey, differentKeys(2, 4)),
    async ([key, texts], lab) => {
      const { store } = await lab.open({ limit: 1, window: '1h' });
      const names = new Set(texts.map((each) => each.slice(0, 256)).filter((each) => each !== ''));
      const limiters = [...names].map((name) => limiterOn(store, { name, limit: 1, window: '1h' }));
      for (const each of [key, `${key}:`])
        for (const limiter of limiters)
          expectFields(`name ${show(limiter.name)}`, await limiter.consume(each), { allowed: true });
    },
  );
}
