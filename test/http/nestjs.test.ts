// headgate/nestjs on both platforms: the checks of headgate-testing, and features of Nest alone.
import { execFile } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { promisify } from 'node:util';
import {
  Catch,
  Controller,
  Module,
  UseGuards,
  type ArgumentsHost,
  type DynamicModule,
  type ExecutionContext,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { WsException } from '@nestjs/websockets';
import { RpcException } from '@nestjs/microservices';
import { expect } from 'chai';
import { locatedError } from 'graphql';
import { createLimiter, HeadgateError, memoryStore, type Store } from 'headgate';
import {
  RateLimit,
  RateLimitException,
  RateLimitGuard,
  RateLimitModule,
  requestOf,
  SkipRateLimit,
  type RateLimitModuleOptions,
  type RateLimitOptions,
} from 'headgate/nestjs';
import { adapterChecks } from 'headgate-testing';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import { emittedCodes } from '../../src/common/warnings.js';
import { describeChecks } from '../support/kit.js';
import { sharedController } from '../support/nest-controllers.js';
import { all, decorate, listen, moduleOf, nestAdapter, platforms } from '../support/nest.js';
import { serverKinds, servers } from '../support/shared-servers.js';
import { freshPrefix } from '../support/stores.js';

const execute = promisify(execFile);
const fixed = (limit: number) => ({ algorithm: 'fixed-window', limit, window: '1m' }) as const;

for (const platform of Object.keys(platforms)) {
  const adapter = platforms[platform]!;

  describeChecks(`Nest on ${platform}`, adapterChecks(nestAdapter(platform)));

  describe(`Nest on ${platform}`, () => {
    const running: { close(): Promise<void> }[] = [];
    afterEach(async () => {
      for (const app of running.splice(0)) await app.close();
    });

    async function serve(
      limits = RateLimitModule.forRoot({ store: memoryStore(), ...fixed(3) }),
      controllers = [sharedController()],
      prepare?: Parameters<typeof listen>[2],
    ) {
      const { app, url } = await listen(moduleOf(controllers, limits), adapter(), prepare);
      running.push(app);
      const get = (path: string) => fetch(url + path);
      const statuses = async (...paths: string[]) => {
        const all: number[] = [];
        for (const path of paths) all.push((await get(path)).status);
        return all;
      };
      return { app, get, statuses };
    }

    // The tests' Fastify trusts this machine, which cannot be changed later.
    if (platform === 'Express')
      it('warns of an untrusted proxy', async () => {
        emittedCodes.clear();
        const warned: unknown[] = [];
        const note = (warning: NodeJS.ErrnoException): unknown => warned.push(warning.code);
        process.on('warning', note);
        const { app } = await serve(RateLimitModule.forRoot(fixed(3)), undefined, (app) => {
          (app.getHttpAdapter().getInstance() as { set(...of: unknown[]): void }).set('trust proxy', false);
        });
        await fetch(`${await app.getUrl()}/a`, { headers: { 'x-forwarded-for': '203.0.113.1' } });
        await new Promise(setImmediate);
        process.off('warning', note);
        expect(warned).to.include('HEADGATE_UNTRUSTED_PROXY');
      });

    it('a controller has one limiter for its handlers; a handler’s own limiter replaces it', async () => {
      const { statuses, get } = await serve();
      expect(await statuses('a', 'b', 'a', 'b')).to.deep.equal([200, 200, 429, 429]);
      expect(await statuses('own', 'own')).to.deep.equal([200, 429]);
      expect(await statuses('free', 'free', 'free', 'free')).to.deep.equal([200, 200, 200, 200]);
      expect(await statuses('global', 'global', 'global', 'global')).to.deep.equal([200, 200, 200, 429]);
      expect((await get('twice')).headers.get('ratelimit-policy')).to.equal(
        '"Shop.twice";q=2;w=60, "Shop.twice #2";q=1;w=60',
      );
      expect(await statuses('twice')).to.deep.equal([429]);
    });

    it('handlers without a decorator have the module’s quota, 1,000 a minute by default, or none', async () => {
      class Plain {
        get() {
          return 'plain';
        }
      }
      decorate(Plain, 'get', all());
      Controller()(Plain);
      const policyOf = async (options: RateLimitModuleOptions) =>
        (await (await serve(RateLimitModule.forRoot(options), [Plain])).get('')).headers.get(
          'ratelimit-policy',
        );
      expect(await policyOf({})).to.equal('"global";q=1000;w=60');
      expect(await policyOf({ limit: 5, window: '10s' })).to.equal('"global";q=5;w=10');
      expect(await policyOf({ global: false })).to.equal(null);
    });

    it('takes options that a decorator omits from the module, and options from other providers', async () => {
      const limits = RateLimitModule.forRootAsync({
        inject: [NestFactoryToken],
        imports: [{ module: class Config {}, providers: [token], exports: [NestFactoryToken] }],
        useFactory: (limit: number): RateLimitModuleOptions => ({
          ...fixed(limit),
          store: memoryStore(),
          keyGenerator: (context) =>
            requestOf<{ headers: { client?: string } }>(context).headers.client ?? 'nobody',
        }),
      });
      const { app } = await serve(limits);
      const url = await app.getUrl();
      const status = async (path: string, client: string) =>
        (await fetch(`${url}/${path}`, { headers: { client } })).status;
      expect([await status('own', 'ada'), await status('own', 'ada')]).to.deep.equal([200, 429]);
      expect([await status('own', 'bob'), await status('global', 'bob')]).to.deep.equal([200, 200]);
    });

    it('denies with an exception that filters may answer; otherwise the answer is a problem document', async () => {
      const { get, statuses } = await serve();
      await statuses('own');
      const denied = await get('own');
      expect(denied.status).to.equal(429);
      expect(denied.headers.get('retry-after')).to.equal('60');
      expect(denied.headers.get('content-type')).to.match(/^application\/(problem\+)?json/);
      expect(await denied.json()).to.include({ status: 429 });

      class Filter {
        catch(exception: RateLimitException, host: ArgumentsHost) {
          const response: { status(code: number): { send(body: string): void } } = host
            .switchToHttp()
            .getResponse();
          response.status(418).send(`${exception.decision.key} ${exception.message}`);
        }
      }
      Catch(RateLimitException)(Filter);
      const filtered = await serve(undefined, undefined, (app) => app.useGlobalFilters(new Filter()));
      await filtered.statuses('own');
      const answer = await filtered.get('own');
      expect(answer.status).to.equal(418);
      expect(await answer.text()).to.match(/^127\.0\.0\.1 Quota Exceeded$/);
    });

    it('sets Retry-After if the store fails', async () => {
      const fails = () => Promise.reject(new Error('secret'));
      const store: Store = { decide: fails, adjust: fails, lease: fails, reset: fails, ban: fails };
      const { get } = await serve(RateLimitModule.forRoot({ store, onStoreError: 'throw', ...fixed(1) }));
      const answer = await get('own');
      expect(answer.status).to.equal(503);
      expect(answer.headers.get('retry-after')).to.equal('1');
      expect(await answer.text()).not.to.contain('secret');
    });

    it('reports mistakes when the app starts', async () => {
      const start = async (options: RateLimitModuleOptions, ...controllers: Type[]) => {
        const module = moduleOf(controllers, RateLimitModule.forRoot(options));
        const app = await NestFactory.create(module, adapter(), { logger: false, abortOnError: false });
        running.push(app);
        return app.init().then(
          () => 'started',
          (error: { code: string }) => error.code,
        );
      };
      class Wrong {
        get() {}
      }
      decorate(Wrong, 'get', all(), RateLimit({ limti: 5 } as unknown as RateLimitOptions));
      Controller()(Wrong);
      expect(await start({}, Wrong)).to.equal('HEADGATE_UNKNOWN_OPTION');
      const store = memoryStore();
      expect(await start({ store }, sharedController(), sharedController('other'))).to.equal(
        'HEADGATE_NAME_REQUIRED',
      );
    });

    it('takes options that are undefined in a decorator from the module', async () => {
      class Undefined {
        get() {
          return 'ok';
        }
      }
      const undefinedOptions = { store: undefined, limiter: undefined, keyGenerator: undefined } as object;
      decorate(Undefined, 'get', all(), RateLimit({ ...undefinedOptions, name: 'own', ...fixed(1) }));
      Controller()(Undefined);
      const store = memoryStore();
      const { statuses } = await serve(
        RateLimitModule.forRoot({ store, ...fixed(3), keyGenerator: () => 'ada' }),
        [Undefined],
      );
      expect(await statuses('')).to.deep.equal([200]);
      const same = createLimiter({ name: 'own', store, ...fixed(1) });
      expect((await same.peek('ada')).allowed).to.be.false;
    });

    describe('one of the module’s policies', () => {
      const policies = [
        { ...fixed(2), name: 'short' },
        { ...fixed(5), name: 'long' },
      ];

      /** A controller with a handler for each list of decorators. */
      const controllerOf = (handlers: Record<string, MethodDecorator[]>, ...ofClass: ClassDecorator[]) => {
        class Shop {}
        for (const [name, decorators] of Object.entries(handlers)) {
          const value = () => name;
          Object.defineProperty(Shop.prototype, name, { value, configurable: true, writable: true });
          decorate(Shop, name, all(name), ...decorators);
        }
        for (const each of ofClass) each(Shop);
        Controller()(Shop);
        return Shop;
      };

      it('is skipped: the others decide, by the module’s own counts', async () => {
        const Shop = controllerOf({ list: [], news: [SkipRateLimit('short')] });
        for (const tier of [undefined, 'free']) {
          const module = tier ? { tiers: { free: policies }, tier } : { policies };
          const { get, statuses } = await serve(RateLimitModule.forRoot(module), [Shop]);
          expect(await statuses('list', 'list', 'list')).to.deep.equal([200, 200, 429]);
          const answer = await get('news');
          expect(answer.headers.get('ratelimit-policy')).to.equal('"long";q=5;w=60');
          expect(await statuses('news', 'news', 'news')).to.deep.equal([200, 200, 429]);
        }
      });

      it('is skipped where the policies depend on the request, and in a whole controller', async () => {
        const Shop = controllerOf({ news: [], all: [RateLimit()] }, SkipRateLimit('short', 'other'));
        const { statuses } = await serve(RateLimitModule.forRoot({ policies: async () => policies }), [Shop]);
        expect(await statuses('news', 'all', 'all', 'all', 'news')).to.deep.equal([200, 200, 200, 429, 200]);
      });

      it('is replaced: the new one has counts of its own, and what one denies, none charges', async () => {
        const login = RateLimit({ replaces: 'short', ...fixed(1) });
        const both = [SkipRateLimit('short'), RateLimit(fixed(3))];
        const Shop = controllerOf({ list: [], login: [login], both });
        const store = memoryStore();
        const { get, statuses } = await serve(RateLimitModule.forRoot({ store, policies }), [Shop]);
        expect(await statuses('list', 'list', 'list')).to.deep.equal([200, 200, 429]);
        const { status, headers } = await get('login');
        expect(status).to.equal(200);
        expect(headers.get('ratelimit')).to.equal('"long";r=2;t=60, "Shop.login";r=0;t=60');
        expect(await statuses('login', 'login', 'both', 'both', 'both')).to.deep.equal([
          429, 429, 200, 200, 429,
        ]);
      });

      it('is not one: the app does not start', async () => {
        for (const [decorator, code] of [
          [SkipRateLimit('shrt'), 'HEADGATE_UNKNOWN_POLICY'],
          [RateLimit({ replaces: 'shrt', ...fixed(1) }), 'HEADGATE_UNKNOWN_POLICY'],
          [RateLimit({ replaces: 'short' }), 'HEADGATE_INVALID_OPTION'],
        ] as const) {
          const error = await serve(RateLimitModule.forRoot({ policies }), [
            controllerOf({ a: [decorator] }),
          ]).then(
            () => undefined,
            (reason: HeadgateError) => reason,
          );
          expect(error?.code).to.equal(code);
          expect(error?.message).to.contain('short');
        }
      });
    });

    it('a decorator takes the text of a policy', async () => {
      class Texts {
        get() {
          return 'text';
        }
      }
      decorate(Texts, 'get', all(), RateLimit('5/1s', { limit: 9, window: '1m' }));
      Controller()(Texts);
      const { get } = await serve(RateLimitModule.forRoot(fixed(3)), [Texts]);
      expect((await get('')).headers.get('ratelimit-policy')).to.equal(
        '"Texts.get";q=5;w=1, "Texts.get #2";q=9;w=60',
      );
    });

    it('two handlers share a limiter by its name, with and without a store', async () => {
      for (const options of [{ store: memoryStore(), ...fixed(9) }, fixed(9)]) {
        class Writes {
          a() {
            return 'a';
          }
          b() {
            return 'b';
          }
        }
        for (const each of ['a', 'b'])
          decorate(Writes, each, all(each), RateLimit({ name: 'writes', ...fixed(2) }));
        Controller()(Writes);
        const { statuses } = await serve(RateLimitModule.forRoot(options), [Writes]);
        expect(await statuses('a', 'b', 'a', 'b')).to.deep.equal([200, 200, 429, 429]);
      }
    });

    it('creates only limiters that decide', async () => {
      const names: string[] = [];
      const store = memoryStore();
      const announcing = Object.create(store, {
        announce: { value: ({ name }: { name: string }) => void names.push(name) },
      }) as Store;
      await serve(RateLimitModule.forRoot({ store: announcing, ...fixed(3) }));
      expect(names).to.have.members(['global', 'Shop', 'Shop.own', 'Shop.twice', 'Shop.twice #2']);
    });

    it('gives names back when the app is closed', async () => {
      const store = memoryStore();
      for (let i = 0; i < 2; i++) {
        const { app } = await serve(RateLimitModule.forRoot({ store, ...fixed(1) }));
        await app.close();
      }
    });
  });
}

const NestFactoryToken = Symbol('limit');
const token = { provide: NestFactoryToken, useValue: 3 };

describe('Nest without the guard', () => {
  const { emitWarning } = process;
  let codes: unknown[];
  beforeEach(() => {
    emittedCodes.clear();
    codes = [];
    process.emitWarning = ((_: string, { code }: { code?: string }) =>
      codes.push(code)) as typeof emitWarning;
  });
  afterEach(() => (process.emitWarning = emitWarning));

  /** A class with a handler and the given decorators. */
  function controllerOf(method: MethodDecorator[], type: ClassDecorator[] = []): Type {
    class Plain {
      get() {}
      helper() {}
    }
    decorate(Plain, 'get', all(), ...method);
    for (const each of [Controller(), ...type]) each(Plain);
    return Plain;
  }

  /** The codes of the warnings of an app that starts. */
  async function start(
    limits: DynamicModule,
    controllers: Type[] = [controllerOf([])],
    providers: Provider[] = [],
  ): Promise<unknown[]> {
    class AppModule {}
    Module({ imports: [limits], controllers, providers })(AppModule);
    const app = await NestFactory.create(AppModule, platforms['Express']!(), { logger: false });
    await app.init();
    await app.close();
    return codes;
  }

  const quota = fixed(5);
  const missing = ['HEADGATE_GUARD_MISSING'];

  it('is reported once the app has started', async () => {
    expect(await start(RateLimitModule.forRoot(quota))).to.deep.equal(missing);
    expect(await start(RateLimitModule.forRoot(quota))).to.deep.equal(missing);
  });

  it('is reported for a decorator', async () => {
    const limits = RateLimitModule.forRoot({ global: false });
    expect(await start(limits, [controllerOf([RateLimit(quota)])])).to.deep.equal(missing);
  });

  it('is reported for a controller’s decorator, with options from another provider', async () => {
    const limits = RateLimitModule.forRootAsync({ useFactory: () => ({ global: false }) });
    expect(await start(limits, [controllerOf([], [RateLimit(quota)])])).to.deep.equal(missing);
  });

  it('is reported for a provider’s handlers', async () => {
    class Resolver {
      users() {}
    }
    Reflect.defineMetadata('graphql:resolver_type', 'Query', Resolver.prototype.users);
    expect(await start(RateLimitModule.forRoot(quota), [], [Resolver])).to.deep.equal(missing);
  });

  it('is not reported if the warning is silenced', async () => {
    const warnings = ['HEADGATE_GUARD_MISSING'] as const;
    expect(await start(RateLimitModule.forRoot({ ...quota, warnings }))).to.deep.equal([]);
  });

  it('is fine if there is nothing to limit', async () => {
    expect(await start(RateLimitModule.forRoot(quota), [])).to.deep.equal([]);
    expect(await start(RateLimitModule.forRoot({ global: false }))).to.deep.equal([]);
    expect(await start(RateLimitModule.forRoot(quota), [controllerOf([SkipRateLimit()])])).to.deep.equal([]);
  });

  class OwnGuard extends RateLimitGuard {}
  class Other {}
  const guards: Readonly<Record<string, Provider[]>> = {
    'for all': [{ provide: APP_GUARD, useClass: RateLimitGuard }],
    'for all, by an existing one': [RateLimitGuard, { provide: APP_GUARD, useExisting: RateLimitGuard }],
    extended: [Other, { provide: APP_GUARD, useClass: OwnGuard }],
    'replaced by a test': [{ provide: RateLimitGuard, useValue: { canActivate: () => true } }],
  };
  for (const [how, providers] of Object.entries(guards)) {
    it(`is not missing: ${how}`, async () => {
      expect(await start(RateLimitModule.forRoot(quota), undefined, providers)).to.deep.equal([]);
    });
  }

  it('is not missing: at a controller, or a handler', async () => {
    const guard = UseGuards(RateLimitGuard);
    expect(await start(RateLimitModule.forRoot(quota), [controllerOf([], [guard])])).to.deep.equal([]);
    expect(await start(RateLimitModule.forRoot(quota), [controllerOf([guard])])).to.deep.equal([]);
  });
});

describe('a Nest controller’s limiter', () => {
  for (const kind of serverKinds) {
    it(`is the same in all processes, whichever handler comes first (${kind})`, async () => {
      const script = new URL('../support/nest-child.ts', import.meta.url).pathname;
      const prefix = freshPrefix();
      const ask = async (...paths: string[]) => {
        const args = [...TYPESCRIPT, script, String(servers[kind].port), prefix, ...paths];
        return JSON.parse((await execute(process.execPath, args)).stdout) as number[];
      };
      const [one, other] = await Promise.all([ask('a', 'b', 'a'), ask('b', 'a', 'b')]);
      expect([...one, ...other].filter((status) => status === 200)).to.have.length(2);
      expect([...one, ...other].filter((status) => status === 429)).to.have.length(4);
    }).timeout(60_000);
  }
});

describe('Nest beyond HTTP', () => {
  class Chat {
    say() {}
    free() {}
  }
  const closing: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const app of closing.splice(0)) await app.close();
  });

  async function guard(options: RateLimitOptions): Promise<RateLimitGuard> {
    decorate(Chat, 'say', RateLimit(options));
    decorate(Chat, 'free', SkipRateLimit());
    const limits = RateLimitModule.forRoot({ store: memoryStore(), ...fixed(100) });
    class AppModule {}
    Module({ imports: [limits], providers: [RateLimitGuard] })(AppModule);
    const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
    closing.push(app);
    return app.get(RateLimitGuard);
  }

  function contextOf(type: string, args: unknown[], method: 'say' | 'free' = 'say'): ExecutionContext {
    const context = new ExecutionContextHost(args, Chat as never, Chat.prototype[method]);
    context.setType(type as 'http');
    return context;
  }

  const tryAgain = async (limits: RateLimitGuard, context: ExecutionContext): Promise<unknown> =>
    limits.canActivate(context).then(
      (passes) => passes,
      (error: unknown) => error,
    );

  it('GraphQL: each field is charged, the client comes from the request, and the response gets no fields', async () => {
    const limits = await guard(fixed(2));
    const res = Object.assign(new EventEmitter(), { statusCode: 200, setHeader: () => expect.fail() });
    const req = { ip: '192.0.2.1' } as { ip: string; rateLimit?: object };
    const field = () => contextOf('graphql', [{}, {}, { req, res }, {}]);
    const once = field();
    expect(await tryAgain(limits, once)).to.be.true;
    // Guarded twice, a field is charged once.
    expect(await tryAgain(limits, once)).to.be.true;
    expect(req.rateLimit).to.include({ remaining: 1 });
    expect(await tryAgain(limits, field())).to.be.true;
    const denied = (await tryAgain(limits, field())) as RateLimitException;
    expect(denied).to.be.instanceOf(RateLimitException);
    expect(denied.getStatus()).to.equal(429);
    const { extensions } = locatedError(denied, []);
    expect(extensions).to.include({ code: 'RATE_LIMITED', policy: 'default' });
    expect(extensions['retryAfterMs']).to.be.within(1, 3_600_000);
    expect(res.statusCode).to.equal(200);
    expect(await tryAgain(limits, contextOf('graphql', [{}, {}, { req, res }, {}], 'free'))).to.be.true;
  });

  it('GraphQL: the client is found whatever the server’s name for its request', async () => {
    const limits = await guard(fixed(1));
    const ask = (context: object | undefined) =>
      tryAgain(limits, contextOf('graphql', [{}, {}, context, {}]));
    const ways: ((request: object) => object)[] = [
      (req) => ({ req }),
      (request) => ({ request }),
      (request) => ({ reply: { request } }),
    ];
    for (const [i, contextWith] of ways.entries()) {
      const ip = `192.0.2.${i}`;
      expect(await ask(contextWith({ ip }))).to.be.true;
      for (const other of ways) expect(await ask(other({ ip }))).to.be.instanceOf(RateLimitException);
    }
    for (const none of [{}, undefined])
      expect(await ask(none))
        .to.be.instanceOf(HeadgateError)
        .with.property('code', 'HEADGATE_NO_CLIENT_IP');
  });

  /** A subscription, by the context from its server. */
  const subscription = (context: object) =>
    contextOf('graphql', [{}, {}, context, { operation: { operation: 'subscription' } }]);

  /** A request of Node that opened a WebSocket. */
  function upgrade(address: string) {
    const socket = Object.assign(new EventEmitter(), { remoteAddress: address, destroyed: false });
    return { upgrade: true, headers: {}, socket };
  }

  it('GraphQL: a subscription is charged to the address of its connection', async () => {
    const limits = await guard(fixed(1));
    const contexts: ((request: object) => object)[] = [
      (request) => ({ req: { extra: { request } } }),
      // As Nest's documentation has it for Apollo on Fastify: graphql-ws passes an id in place of the reply.
      (request) => ({ req: { extra: { request } }, res: '786ba47f' }),
      (request) => ({ req: request }),
    ];
    for (const [i, contextWith] of contexts.entries()) {
      const request = upgrade(`192.0.2.${i}`);
      const context = subscription(contextWith(request));
      expect(await tryAgain(limits, context)).to.be.true;
      expect(requestOf(context)).to.equal(request);
      expect(await tryAgain(limits, subscription(contextWith(request)))).to.be.instanceOf(RateLimitException);
    }
  });

  it('GraphQL: a subscription holds its slot until the connection ends', async () => {
    const slots = { algorithm: 'concurrency', limit: 1, lease: '1m', keyGenerator: () => 'room' } as const;
    const limits = await guard(slots);
    const contexts: ((request: object) => object)[] = [
      (request) => ({ req: { extra: { request } }, res: '786ba47f' }),
      // Mercurius: a request of Fastify, and a reply that only has this request.
      (raw) => ({ request: { raw, ip: '192.0.2.1' }, reply: { request: { raw, ip: '192.0.2.1' } } }),
    ];
    for (const contextWith of contexts) {
      const request = upgrade('192.0.2.1');
      expect(await tryAgain(limits, subscription(contextWith(request)))).to.be.true;
      expect(await tryAgain(limits, subscription(contextWith(request)))).to.be.instanceOf(RateLimitException);
      request.socket.emit('close');
      await new Promise(setImmediate);
    }
    const last = upgrade('192.0.2.1');
    expect(await tryAgain(limits, subscription({ req: last }))).to.be.true;
    last.socket.emit('close');
  });

  it('gateways: each message is charged to the socket’s address, and denied by a WsException', async () => {
    const limits = await guard(fixed(1));
    const socket = Object.assign(new EventEmitter(), { handshake: { address: '192.0.2.1' } });
    const other = Object.assign(new EventEmitter(), { _socket: { remoteAddress: '192.0.2.2' } });
    expect(await tryAgain(limits, contextOf('ws', [socket, 'hello']))).to.be.true;
    expect(await tryAgain(limits, contextOf('ws', [other, 'hello']))).to.be.true;
    const denied = (await tryAgain(limits, contextOf('ws', [socket, 'hello']))) as WsException;
    expect(denied).to.be.instanceOf(WsException);
    expect(denied.getError()).to.include({ status: 429 });
  });

  it('gateways: a slot is held until the connection ends', async () => {
    const limits = await guard({
      algorithm: 'concurrency',
      limit: 1,
      lease: '1m',
      keyGenerator: () => 'room',
    });
    const sockets = [0, 1].map(() => Object.assign(new EventEmitter(), { disconnected: false }));
    const enter = (i: number) => tryAgain(limits, contextOf('ws', [sockets[i], 'hello']));
    expect(await enter(0)).to.be.true;
    expect(await enter(1)).to.be.instanceOf(WsException);
    sockets[0]!.emit('disconnect');
    await new Promise(setImmediate);
    expect(await enter(1)).to.be.true;
    sockets[1]!.emit('close');
  });

  it('gateways: no collection grows with the messages of a connection', async () => {
    const slots = { algorithm: 'concurrency', limit: 100, lease: '1m', keyGenerator: () => 'k' } as const;
    const socket = Object.assign(new EventEmitter(), { handshake: { address: '192.0.2.1' } });
    const listeners = ['close', 'disconnect'];
    for (const options of [
      { ...fixed(100), skipFailedRequests: true },
      { ...fixed(100), refundAborted: true },
      slots,
    ]) {
      const limits = await guard(options);
      for (let i = 0; i < 20; i++)
        expect(await tryAgain(limits, contextOf('ws', [socket, 'hello']))).to.be.true;
      const most = options === slots ? 1 : 0;
      expect(listeners.map((event) => socket.listenerCount(event))).to.deep.equal([most, most]);
    }
    socket.emit('close');
  });

  it('gateways: the end of a connection refunds none of its messages', async () => {
    const slots = { name: 'slots', algorithm: 'concurrency', limit: 9, lease: '1m' } as const;
    for (const others of [[], [slots]]) {
      const policies = [{ name: 'messages', ...fixed(2) }, ...others];
      const limits = await guard({ policies, refundAborted: true, keyGenerator: () => 'k' });
      const socket = Object.assign(new EventEmitter(), { disconnected: false });
      const say = (from: object) => tryAgain(limits, contextOf('ws', [from, 'hello']));
      for (let i = 0; i < 2; i++) expect(await say(socket)).to.be.true;
      Object.assign(socket, { disconnected: true }).emit('disconnect');
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(await say(new EventEmitter())).to.be.instanceOf(WsException);
    }
  });

  it('a request whose response has begun is denied: over GraphQL with an exception, and otherwise cut off', async () => {
    const limits = await guard({ ...fixed(1), keyGenerator: () => 'k' });
    const begun = () => {
      let cuts = 0;
      const state = { headersSent: true, statusCode: 200, destroy: () => cuts++, getHeader: () => {} };
      return { response: Object.assign(new EventEmitter(), state), cuts: () => cuts };
    };
    const [graphql, http] = [begun(), begun()];
    const field = () => contextOf('graphql', [{}, {}, { req: { ip: '192.0.2.1' }, res: graphql.response }]);
    expect(await tryAgain(limits, field())).to.be.true;
    expect(await tryAgain(limits, field())).to.be.instanceOf(RateLimitException);
    void tryAgain(limits, contextOf('http', [{ ip: '192.0.2.1' }, http.response]));
    await new Promise(setImmediate);
    expect([graphql.cuts(), http.cuts()]).to.deep.equal([0, 1]);
  });

  it('a request that a handler cannot answer is denied with an exception', async () => {
    const handled: unknown[] = [];
    const limits = await guard({
      ...fixed(1),
      statusCode: 420,
      keyGenerator: () => 'all',
      handler: (context) => void handled.push(context.getType()),
    });
    const field = () =>
      contextOf('graphql', [{}, {}, { req: { res: Object.assign(new EventEmitter(), {}) } }, {}]);
    await tryAgain(limits, field());
    const denied = (await tryAgain(limits, field())) as RateLimitException;
    expect(denied).to.be.instanceOf(RateLimitException);
    expect(denied.getStatus()).to.equal(420);
    const message = (await tryAgain(limits, contextOf('rpc', [{}, {}]))) as RpcException;
    expect(message).to.be.instanceOf(RpcException);
    expect(message.getError()).to.include({ title: 'Quota Exceeded', status: 420 });
    expect(handled).to.deep.equal(['graphql', 'rpc']);
  });

  it('microservices: the keyGenerator returns the key of a message', async () => {
    const limits = await guard({
      ...fixed(1),
      keyGenerator: (context) => context.switchToRpc().getData<{ user: string }>().user,
    });
    const message = (user: string) => contextOf('rpc', [{ user }, {}]);
    expect(await tryAgain(limits, message('ada'))).to.be.true;
    expect(await tryAgain(limits, message('bob'))).to.be.true;
    expect(await tryAgain(limits, message('ada'))).to.be.instanceOf(RpcException);
  });
});
