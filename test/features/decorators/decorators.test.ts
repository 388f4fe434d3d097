import { expect } from 'chai';
import { createLimiter, memoryStore, type HeadgateError } from 'headgate';
import { rateLimited, RateLimited } from 'headgate/decorators';
import { openLimiters } from '../../../src/contract/gauges.js';
import { limiterOn, stores } from '../../support/stores.js';

const one = { algorithm: 'fixed-window', limit: 1, window: '1h' } as const;
const two = { ...one, limit: 2 } as const;

/** The outcome of a call: its result, or the code of its error. */
const outcome = (promise: Promise<unknown>) =>
  promise.catch((error: HeadgateError) => error.code ?? String(error));

describe('rateLimited', () => {
  it('calls the function while its limiter admits, and rejects with the decision after', async () => {
    const add = rateLimited((a: number, b: number) => a + b, two);
    expect(await add(1, 2)).to.equal(3);
    expect(await add(3, 4)).to.equal(7);
    const error: unknown = await add(5, 6).catch((reason: unknown) => reason);
    expect(error).to.include({ code: 'HEADGATE_DENIED' });
    expect(error).to.have.nested.property('decision.reason', 'quota-exceeded');
  });

  it('takes key and cost from the arguments, sync or async, and passes `this` on', async () => {
    const service = {
      prefix: 'user:',
      find: rateLimited(
        async function (this: { prefix: string }, id: string, units: number) {
          return `${this.prefix}${id} ${units}`;
        },
        {
          ...two,
          key: async function (id) {
            return this.prefix + id;
          },
          cost: (_id, units) => units,
        },
      ),
    };
    expect(await service.find('ada', 2)).to.equal('user:ada 2');
    expect(await outcome(service.find('ada', 1))).to.equal('HEADGATE_DENIED');
    expect(await service.find('bob', 1)).to.equal('user:bob 1');
    expect((await service.find.limiter.peek('user:bob')).remaining).to.equal(1);
  });

  it('does not limit a call without a key', async () => {
    const fn = rateLimited((id?: string) => id ?? 'nobody', { ...one, key: (id) => id });
    for (const id of [undefined, undefined, 'ada']) expect(await fn(id)).to.equal(id ?? 'nobody');
    expect(await outcome(fn('ada'))).to.equal('HEADGATE_DENIED');
  });

  it('calls the fallback, with the arguments only if passArgs is set', async () => {
    const calls: unknown[][] = [];
    const fallback = (...args: unknown[]) => {
      calls.push(args);
      return 'busy';
    };
    const without = rateLimited((id: string) => id, { ...one, fallback });
    const withArgs = rateLimited((id: string) => id, { ...one, fallback, passArgs: true });
    for (const fn of [without, withArgs]) {
      expect(await fn('first')).to.equal('first');
      expect(await fn('second')).to.equal('busy');
    }
    expect(calls).to.deep.equal([[], ['second']]);
  });

  it('calls a fallback method by its name', async () => {
    const service = {
      name: 'ada',
      find: rateLimited((id: number) => `found ${id}`, { ...one, fallback: 'busy', passArgs: true }),
      busy(id: number) {
        return `${this.name} is busy ${id}`;
      },
    };
    expect(await service.find(1)).to.equal('found 1');
    expect(await service.find(2)).to.equal('ada is busy 2');
    expect(await outcome(service.find.call({}, 3))).to.equal('HEADGATE_INVALID_OPTION');
  });

  it('passes errors of the function, the key and the cost on, thrown or rejected', async () => {
    const fail = () => {
      throw new Error('broken');
    };
    const options = { ...one, limit: 9, fallback: () => 'not for this' } as const;
    expect(await outcome(rateLimited(fail, options)())).to.equal('Error: broken');
    expect(await outcome(rateLimited(async () => fail(), options)())).to.equal('Error: broken');
    expect(await outcome(rateLimited(() => 1, { ...options, key: fail })())).to.equal('Error: broken');
    expect(await outcome(rateLimited(() => 1, { ...options, cost: fail })())).to.equal('Error: broken');
    const odd = rateLimited(() => 1, { ...options, cost: () => -1 });
    expect(await outcome(odd())).to.equal('HEADGATE_INVALID_COST');
    expect(await outcome(rateLimited(() => 1, { ...options, key: () => 5 as never })())).to.equal(
      'HEADGATE_INVALID_KEY',
    );
    expect((await odd.limiter.peek('all')).remaining).to.equal(9);
  });

  it('waits to be admitted, and is denied when that takes too long', async () => {
    const policy = { algorithm: 'token-bucket', limit: 100, window: '1s', burst: 1 } as const;
    const patient = rateLimited((n: number) => n, { ...policy, wait: true });
    expect(await Promise.all([1, 2, 3].map((n) => patient(n)))).to.deep.equal([1, 2, 3]);
    const hasty = rateLimited((n: number) => n, { ...one, wait: { timeout: '10ms' } });
    expect(await hasty(1)).to.equal(1);
    expect(await outcome(hasty(2))).to.equal('HEADGATE_WAIT_TIMEOUT');
    const soft = rateLimited((n: number) => n, { ...one, wait: { timeout: 10 }, fallback: () => 0 });
    expect([await soft(1), await soft(2)]).to.deep.equal([1, 0]);
  });

  it('holds a call of a leaky bucket until its turn', async () => {
    const fn = rateLimited(() => performance.now(), { policies: 'leaky-bucket 50/1s burst 1 max-delay 1s' });
    const times = await Promise.all([fn(), fn(), fn()]);
    expect(times).to.deep.equal([...times].sort((a, b) => a - b));
    expect(times[2] - times[0]).to.be.above(30);
  });

  it('holds a slot until the function is done, however it ends', async () => {
    const options = { algorithm: 'concurrency', limit: 1, lease: '1h' } as const;
    let finish = (): void => {};
    const fn = rateLimited(
      (fails: boolean) =>
        new Promise<string>((resolve, reject) => {
          finish = () => (fails ? reject(new Error('failed')) : resolve('done'));
        }),
      options,
    );
    for (const fails of [false, true]) {
      const first = outcome(fn(fails));
      while ((await fn.limiter.peek('all')).remaining > 0) await new Promise(setImmediate);
      expect(await outcome(fn(false))).to.equal('HEADGATE_DENIED');
      finish();
      expect(await first).to.equal(fails ? 'Error: failed' : 'done');
      expect((await fn.limiter.peek('all')).remaining).to.equal(1);
    }
  });

  it('looks like the function: name, length, properties', () => {
    const find = (_a: string, _b: number) => 1;
    const limitedFind = rateLimited(Object.assign(find, { help: 'finds' }), one);
    expect(limitedFind).to.include({ name: 'find', length: 2, help: 'finds' });
    expect(limitedFind.limiter.name).to.equal('find');
    expect(rateLimited(limitedFind, { ...one, name: 'outer' }).limiter.name).to.equal('outer');
  });

  it('shares a limiter from its options', async () => {
    const limiter = createLimiter(two);
    const [f, g] = [rateLimited(() => 'f', { limiter }), rateLimited(() => 'g', { limiter })];
    expect([await f(), await g(), await outcome(f()), await outcome(g())]).to.deep.equal([
      ...['f', 'g', 'HEADGATE_DENIED', 'HEADGATE_DENIED'],
    ]);
  });

  for (const [name, createStore] of Object.entries(stores)) {
    it(`decides the same on ${name}`, async () => {
      const limiter = limiterOn(createStore(), two);
      const fn = rateLimited((n: number) => n, { limiter, key: (n) => String(n % 2) });
      const outcomes = [];
      for (let n = 1; n <= 6; n++) outcomes.push(await outcome(fn(n)));
      expect(outcomes).to.deep.equal([1, 2, 3, 4, 'HEADGATE_DENIED', 'HEADGATE_DENIED']);
    });
  }

  describe('refuses', () => {
    const limiter = createLimiter(one);
    const cases: [name: string, options: object, code: string][] = [
      ['no policy', {}, 'HEADGATE_INVALID_OPTION'],
      ['a limiter that is not a limiter', { limiter: {} }, 'HEADGATE_INVALID_OPTION'],
      ['a limiter and a policy', { limiter, limit: 5 }, 'HEADGATE_INVALID_OPTION'],
      ['a key that is not a function', { ...one, key: 'ada' }, 'HEADGATE_INVALID_OPTION'],
      ['a negative cost', { ...one, cost: -1 }, 'HEADGATE_INVALID_COST'],
      ['a fallback that is neither', { ...one, fallback: 5 }, 'HEADGATE_INVALID_OPTION'],
      ['passArgs without a fallback', { ...one, passArgs: true }, 'HEADGATE_INVALID_OPTION'],
      ['passArgs that is not a boolean', { ...one, fallback: 'x', passArgs: 1 }, 'HEADGATE_INVALID_OPTION'],
      ['wait that is neither', { ...one, wait: '1s' }, 'HEADGATE_INVALID_OPTION'],
      ['a timeout that is not a duration', { ...one, wait: { timeout: 'soon' } }, 'HEADGATE_INVALID_OPTION'],
      ['unknown options of wait', { ...one, wait: { ms: 5 } }, 'HEADGATE_UNKNOWN_OPTION'],
      ['unknown options', { ...one, keyGenerator: () => 'x' }, 'HEADGATE_UNKNOWN_OPTION'],
      ['a policy by a key that no call has', { policies: '1/1h by account' }, 'HEADGATE_UNKNOWN_DIMENSION'],
      [
        'a policy of several by such a key',
        { policies: ['1/1h', '1/1d by account'] },
        'HEADGATE_UNKNOWN_DIMENSION',
      ],
      [
        'a tier by such a key',
        { tiers: { free: '1/1h', pro: '9/1h by account' }, tier: () => 'free' },
        'HEADGATE_UNKNOWN_DIMENSION',
      ],
      [
        'a limiter by such a key',
        { limiter: createLimiter('1/1h by account') },
        'HEADGATE_UNKNOWN_DIMENSION',
      ],
    ];
    for (const [name, options, code] of cases) {
      it(name, () => {
        expect(() => rateLimited(() => 1, options as typeof one))
          .to.throw()
          .with.property('code', code);
        expect(() => RateLimited(options as typeof one))
          .to.throw()
          .with.property('code', code);
      });
    }

    it('but not a tier that no call has, nor a policy of which `key` returns the key', async () => {
      const tiers = { free: '1/1h', pro: '9/1h by account' };
      expect(await rateLimited(() => 1, { tiers, tier: 'free' })()).to.equal(1);
      const byAccount = rateLimited((account: string) => account, {
        policies: '1/1h by account',
        key: (account: string) => ({ account }),
      });
      expect(await byAccount('ada')).to.equal('ada');
      expect(await outcome(byAccount('ada'))).to.equal('HEADGATE_DENIED');
      expect(await byAccount('bob')).to.equal('bob');
    });

    it('a value that is not a function', () => {
      expect(() => rateLimited('fn' as never, one))
        .to.throw()
        .with.property('code', 'HEADGATE_INVALID_OPTION');
    });
  });
});

describe('@RateLimited, standard', () => {
  it('limits a method, by `this` and the arguments', async () => {
    class Users {
      readonly tenant: string;

      constructor(tenant: string) {
        this.tenant = tenant;
      }

      @RateLimited({
        ...two,
        key(this: Users, id: string) {
          return `${this.tenant}:${id}`;
        },
      })
      async find(id: string, detail = 0) {
        return `${this.tenant} ${id} ${detail}`;
      }
    }
    const [a, b] = [new Users('a'), new Users('b')];
    expect([await a.find('1'), await a.find('1', 7), await b.find('1')]).to.deep.equal([
      'a 1 0',
      'a 1 7',
      'b 1 0',
    ]);
    expect(await outcome(a.find('1'))).to.equal('HEADGATE_DENIED');
    expect(await outcome(b.find('1'))).to.equal('b 1 0');
  });

  it('limits static, inherited and private methods', async () => {
    class Base {
      @RateLimited(one)
      static async make() {
        return this.name;
      }

      @RateLimited(one)
      async run() {
        return this.constructor.name;
      }

      @RateLimited(one)
      async #inner() {
        return 'inner';
      }

      inner() {
        return this.#inner();
      }
    }
    class Derived extends Base {
      override async run() {
        return `derived ${await super.run()}`;
      }
    }
    expect([await Base.make(), await outcome(Derived.make())]).to.deep.equal(['Base', 'HEADGATE_DENIED']);
    expect(await new Derived().run()).to.equal('derived Derived');
    expect(await outcome(new Base().run())).to.equal('HEADGATE_DENIED');
    expect([await new Base().inner(), await outcome(new Base().inner())]).to.deep.equal([
      'inner',
      'HEADGATE_DENIED',
    ]);
  });

  it('calls a fallback method by its name: own, inherited or overridden', async () => {
    class Base {
      async busy(id: string) {
        return `busy ${id}`;
      }
    }
    class Users extends Base {
      @RateLimited({ ...one, fallback: 'busy', passArgs: true })
      async find(id: string) {
        return `found ${id}`;
      }
    }
    class Quiet extends Users {
      override async busy() {
        return 'shh';
      }
    }
    expect([
      await new Users().find('1'),
      await new Users().find('2'),
      await new Quiet().find('3'),
    ]).to.deep.equal([...['found 1', 'busy 2', 'shh']]);
  });

  it('limits all methods of a class, each by itself; a method’s own limit wins, and inherited methods stay', async () => {
    class Base {
      async inherited() {
        return 'inherited';
      }
    }
    @RateLimited({ ...one, fallback: 'busy' })
    class Users extends Base {
      label = 'users';
      static handler = () => 'handler';

      get size() {
        return 3;
      }

      async find() {
        return this.label;
      }

      async list() {
        return 'list';
      }

      @RateLimited(two)
      async own() {
        return 'own';
      }

      static async make() {
        return new Users();
      }

      async busy() {
        return 'busy';
      }
    }
    const users = await Users.make();
    expect(await outcome(Users.make())).to.equal('HEADGATE_DENIED');
    expect(users).to.be.instanceOf(Users).and.include({ size: 3, constructor: Users });
    expect(Users.handler()).to.equal('handler');
    type Name = 'find' | 'list' | 'own' | 'inherited' | 'busy';
    const twice = async (name: Name) => [await outcome(users[name]()), await outcome(users[name]())];
    expect(await twice('find')).to.deep.equal(['users', 'busy']);
    expect(await twice('list')).to.deep.equal(['list', 'busy']);
    expect(await twice('own')).to.deep.equal(['own', 'own']);
    expect(await twice('own')).to.deep.equal(['HEADGATE_DENIED', 'HEADGATE_DENIED']);
    expect(await twice('inherited')).to.deep.equal(['inherited', 'inherited']);
    expect(await twice('busy')).to.deep.equal(['busy', 'busy']);
  });

  it('of a class does not change the fallbacks of its methods, inherited or overridden', async () => {
    class Base {
      @RateLimited({ ...one, fallback: 'later' })
      async first() {
        return 'first';
      }

      async later() {
        return 'later';
      }
    }
    @RateLimited(one)
    class Users extends Base {
      @RateLimited({ ...one, fallback: 'busy' })
      async find() {
        return 'found';
      }

      async busy() {
        return 'busy';
      }

      override async later() {
        return 'overridden';
      }

      async other() {
        return 'other';
      }

      @RateLimited({ ...one, fallback: 'none' })
      static async all() {
        return 'all';
      }

      static async none() {
        return 'none';
      }
    }
    const users = new Users();
    const calls = async (method: () => Promise<string>) => {
      const outcomes = [];
      for (let i = 0; i < 4; i++) outcomes.push(await outcome(method()));
      return outcomes.join(' ');
    };
    expect(await calls(() => users.find())).to.equal('found busy busy busy');
    expect(await calls(() => users.first())).to.equal('first overridden overridden overridden');
    expect(await calls(() => Users.all())).to.equal('all none none none');
    expect(await calls(() => users.busy())).to.equal('busy busy busy busy');
    expect(await calls(() => users.other())).to.match(/^other( HEADGATE_DENIED){3}$/);
  });

  it('twice on a class: neither changes the fallback of the other', async () => {
    @RateLimited(one)
    @RateLimited({ ...one, fallback: 'busy' })
    class Users {
      async find() {
        return 'found';
      }

      async busy() {
        return 'busy';
      }
    }
    const users = new Users();
    const outcomes = [];
    for (let i = 0; i < 4; i++) outcomes.push(await outcome(users.find()));
    expect(outcomes).to.deep.equal(['found', 'busy', 'busy', 'busy']);
  });

  it('shares a quota among methods with a common name, or limiter', async () => {
    const limiter = createLimiter(one);
    class Users {
      @RateLimited({ limiter })
      async a() {
        return 'a';
      }

      @RateLimited({ limiter })
      async b() {
        return 'b';
      }
    }
    @RateLimited({ ...one, name: 'group' })
    class Group {
      async a() {
        return 'a';
      }

      async b() {
        return 'b';
      }
    }
    for (const of of [new Users(), new Group()]) {
      expect([await of.a(), await outcome(of.b())]).to.deep.equal(['a', 'HEADGATE_DENIED']);
    }
    const shared = { ...one, name: 'group', store: memoryStore() };
    class Stored {
      @RateLimited(shared)
      async a() {
        return 'a';
      }
    }
    await new Stored().a();
    expect((await createLimiter(shared).consume('all')).allowed).to.be.false;
  });

  it('refuses two methods that would share a quota on one store by accident', () => {
    const store = memoryStore();
    const define = () => {
      class A {
        @RateLimited({ ...one, store })
        async find() {}
      }
      return A;
    };
    define();
    expect(define).to.throw().with.property('code', 'HEADGATE_NAME_REQUIRED');
  });

  it('refuses a missing fallback, and a member that is not a method', () => {
    class Users {
      @RateLimited({ ...one, fallback: 'nowhere' })
      async find() {}
    }
    expect(() => new Users())
      .to.throw(/fallback: "nowhere"/)
      .with.property('code', 'HEADGATE_INVALID_OPTION');
    const defineClass = () => {
      @RateLimited({ ...one, fallback: 'nowhere' })
      class Others {
        async find() {}
      }
      return Others;
    };
    expect(defineClass).to.throw().with.property('code', 'HEADGATE_INVALID_OPTION');
    const defineGetter = () => {
      class Getter {
        // @ts-expect-error -- a getter is not a method
        @RateLimited(one)
        get size() {
          return 1;
        }
      }
      return Getter;
    };
    expect(defineGetter)
      .to.throw(/getter/)
      .with.property('code', 'HEADGATE_INVALID_ARGUMENT');
  });
});

// Decorators as TypeScript calls them under `experimentalDecorators`, with which examples/legacy is compiled.
describe('@RateLimited, legacy', () => {
  function decorateMethod(target: object, name: string | symbol, decorator: unknown) {
    const descriptor = Object.getOwnPropertyDescriptor(target, name)!;
    (decorator as MethodDecorator)(target, name, descriptor);
    Object.defineProperty(target, name, descriptor);
  }

  it('limits methods and static methods', async () => {
    class Users {
      async find(id: string) {
        return `found ${id}`;
      }

      static async make() {
        return 'made';
      }

      async busy(id: string) {
        return `busy ${id}`;
      }
    }
    const options = { ...one, fallback: 'busy', passArgs: true } as const;
    decorateMethod(Users.prototype, 'find', RateLimited({ ...options, key: (id: string) => id }));
    decorateMethod(Users, 'make', RateLimited(one));
    const users = new Users();
    expect([await users.find('1'), await users.find('1'), await users.find('2')]).to.deep.equal([
      ...['found 1', 'busy 1', 'found 2'],
    ]);
    expect([await Users.make(), await outcome(Users.make())]).to.deep.equal(['made', 'HEADGATE_DENIED']);
    expect(() => decorateMethod(Users.prototype, 'busy', RateLimited({ ...one, fallback: 'nowhere' })))
      .to.throw()
      .with.property('code', 'HEADGATE_INVALID_OPTION');
  });

  it('limits a class, except its private methods', async () => {
    class Users {
      async find() {
        return 'found';
      }

      async own() {
        return 'own';
      }
    }
    decorateMethod(Users.prototype, 'own', RateLimited(two));
    RateLimited(one)(Users);
    const users = new Users();
    expect([await users.find(), await outcome(users.find())]).to.deep.equal(['found', 'HEADGATE_DENIED']);
    expect([await users.own(), await users.own(), await outcome(users.own())]).to.deep.equal([
      ...['own', 'own', 'HEADGATE_DENIED'],
    ]);
  });

  it('of a class does not change the fallbacks of its methods', async () => {
    const quiet = Symbol('quiet');
    class Users {
      async find() {
        return 'found';
      }

      async [quiet]() {
        return 'quiet';
      }

      async busy() {
        return 'busy';
      }

      async hush() {
        return 'hush';
      }

      static async make() {
        return 'made';
      }

      static async none() {
        return 'none';
      }
    }
    decorateMethod(Users.prototype, 'find', RateLimited({ ...one, fallback: 'busy' }));
    decorateMethod(Users.prototype, quiet, RateLimited({ ...one, fallback: 'hush' }));
    decorateMethod(Users, 'make', RateLimited({ ...one, fallback: 'none' }));
    RateLimited(one)(Users);
    const users = new Users();
    const outcomes = [];
    for (let i = 0; i < 3; i++) {
      outcomes.push(await outcome(users.find()), await outcome(users[quiet]()), await outcome(Users.make()));
    }
    expect(outcomes.join(' ')).to.equal('found quiet made busy hush none busy hush none');
  });

  it('keeps the metadata of a method, for frameworks', async () => {
    await import('reflect-metadata');
    class Users {
      async find() {}
    }
    const method = () => Object.getOwnPropertyDescriptor(Users.prototype, 'find')!.value as object;
    const original = method();
    Reflect.defineMetadata('path', '/users', original);
    RateLimited(one)(Users);
    expect(method()).to.not.equal(original);
    expect(Reflect.getMetadata('path', method())).to.equal('/users');
  });

  it('leaves only the limiter of each method for metrics to count', () => {
    class Users {
      @RateLimited({ ...one, name: 'counted' })
      async find() {
        return 1;
      }
    }
    expect(Users).to.be.a('function');
    expect(openLimiters().filter(({ name }) => name === 'counted')).to.have.length(1);
  });

  it('refuses a property', () => {
    expect(() => (RateLimited(one) as PropertyDecorator)({}, 'x'))
      .to.throw(/property/)
      .with.property('code', 'HEADGATE_INVALID_ARGUMENT');
  });
});

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

describe('types of limited functions', () => {
  const same = <A, B>(equal: Equal<A, B>) => expect(equal).to.be.true;

  it('are those of the function, with a promise of its result', () => {
    const _sync = rateLimited((id: string, n?: number) => id.length + (n ?? 0), one);
    same<Parameters<typeof _sync>, Parameters<(id: string, n?: number) => void>>(true);
    same<ReturnType<typeof _sync>, Promise<number>>(true);
    const _async = rateLimited(async (id: string) => [id], {
      ...one,
      key: (id) => id.trim(),
      cost: (id) => id.length,
    });
    same<typeof _async extends (id: string) => Promise<string[]> ? true : false, true>(true);
    const _method = rateLimited(function (this: { tenant: string }, n: number) {
      return this.tenant.repeat(n);
    }, one);
    same<ThisParameterType<typeof _method>, { tenant: string }>(true);
  });

  it('include the fallback’s result', () => {
    const _fn = rateLimited((id: string) => id, { ...one, fallback: async () => null });
    same<ReturnType<typeof _fn>, Promise<string | null>>(true);
    rateLimited((id: string) => id, { ...one, fallback: (id) => id.length, passArgs: true });
    // @ts-expect-error -- without passArgs the fallback gets no arguments
    rateLimited((id: string) => id, { ...one, fallback: (id: string) => id.length });
  });

  it('refuse a key with other arguments', () => {
    // @ts-expect-error -- id is a string
    rateLimited((id: string) => id, { ...one, key: (id: number) => String(id) });
    class Users {
      @RateLimited({ ...one, key: (id: string) => id })
      async more(id: string, n: number) {
        return id.repeat(n);
      }

      // @ts-expect-error -- id is a number
      @RateLimited({ ...one, key: (id: string) => id })
      async find(id: number) {
        return id;
      }

      // @ts-expect-error -- there is no argument to take the key from
      @RateLimited({ ...one, key: (id: string) => id })
      async all() {
        return [];
      }
    }
    same<Parameters<Users['more']>, [id: string, n: number]>(true);
  });

  it('refuse methods that do not return a promise', () => {
    class Users {
      // @ts-expect-error -- it would return one
      @RateLimited(one)
      find() {
        return 1;
      }
    }
    // @ts-expect-error -- it would return one
    @RateLimited(one)
    class Others {
      find() {
        return 1;
      }
    }
    @RateLimited(one)
    class Fine {
      size = 1;

      async find() {
        return this.size;
      }
    }
    expect([Users, Others, Fine]).to.have.length(3);
  });
});
