// Messages of microservices and bots behind headgate/nestjs: without a key they pass, and the first one causes a warning.
import 'reflect-metadata';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { Controller, Injectable, Module, type ExecutionContext } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, ExternalContextCreator, NestFactory } from '@nestjs/core';
import {
  ClientProxyFactory,
  Ctx,
  EventPattern,
  MessagePattern,
  Payload,
  Transport,
  type ClientProxy,
} from '@nestjs/microservices';
import { ExpressAdapter } from '@nestjs/platform-express';
import { expect } from 'chai';
import {
  RateLimitFilter,
  RateLimitGuard,
  RateLimitModule,
  requestOf,
  type RateLimitModuleOptions,
} from 'headgate/nestjs';
import { clientKey } from 'headgate/http';
import { firstValueFrom } from 'rxjs';
import { emittedCodes } from '../../src/common/warnings.js';
import { all, decorate } from '../support/nest.js';

const fixed = (limit: number) => ({ algorithm: 'fixed-window', limit, window: '1m' }) as const;

/** A port that nothing listens on. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** The messages and events that handlers received. */
let received: unknown[];

class Shop {
  list() {
    return 'listed';
  }
  sum(numbers: number[]) {
    received.push(numbers);
    return numbers.length;
  }
  noted(event: unknown) {
    received.push(event);
  }
}
decorate(Shop, 'list', all('list'));
decorate(Shop, 'sum', MessagePattern('sum'));
decorate(Shop, 'noted', EventPattern('noted'));
for (const method of ['sum', 'noted']) {
  Payload()(Shop.prototype, method, 0);
  Ctx()(Shop.prototype, method, 1);
}
Controller()(Shop);

/** A bot's handlers, called as necord and nestjs-telegraf do. */
class Bot {
  start() {
    return 'started';
  }
}
Injectable()(Bot);

describe('Nest: messages without a client’s address', () => {
  const running: { close(): unknown }[] = [];
  let warned: unknown[];
  const note = (warning: NodeJS.ErrnoException): unknown => warned.push(warning.code);

  beforeEach(() => {
    received = [];
    warned = [];
    emittedCodes.clear();
    process.on('warning', note);
  });
  afterEach(async () => {
    process.off('warning', note);
    for (const each of running.splice(0).reverse()) await each.close();
  });

  /** An app with routes, a microservice over TCP, and a bot. */
  async function start(options: RateLimitModuleOptions) {
    class AppModule {}
    Module({
      imports: [RateLimitModule.forRoot(options)],
      controllers: [Shop],
      providers: [
        { provide: APP_GUARD, useClass: RateLimitGuard },
        { provide: APP_FILTER, useClass: RateLimitFilter },
        Bot,
      ],
    })(AppModule);
    const app = await NestFactory.create(AppModule, new ExpressAdapter(), {
      logger: false,
      abortOnError: false,
      forceCloseConnections: true,
    });
    running.push(app);
    const port = await freePort();
    const tcp = { host: '127.0.0.1', port };
    app.connectMicroservice({ transport: Transport.TCP, options: tcp }, { inheritAppConfig: true });
    await app.startAllMicroservices();
    await app.listen(0, '127.0.0.1');
    const client: ClientProxy = ClientProxyFactory.create({ transport: Transport.TCP, options: tcp });
    running.push(client);
    const url = await app.getUrl();
    const bot = app.get(Bot);
    const call = app
      .get(ExternalContextCreator)
      .create(
        bot,
        bot.start.bind(bot),
        'start',
        undefined,
        undefined,
        undefined,
        undefined,
        undefined,
        'necord',
      );
    return {
      get: async () => (await fetch(`${url}/list`)).status,
      sum: (...numbers: number[]): Promise<unknown> =>
        firstValueFrom(client.send<unknown>('sum', numbers)).catch((error: unknown) => error),
      note: (event: string) => void client.emit('noted', event).subscribe(),
      /** A message of a bot: its interaction is the first argument of the handlers. */
      bot: (...args: unknown[]): Promise<unknown> =>
        (call(...args) as Promise<unknown>).catch((error: unknown) => (error as Error).message),
    };
  }

  async function expectAllPass({ sum, note, bot }: Awaited<ReturnType<typeof start>>) {
    received = [];
    for (let i = 1; i <= 3; i++) {
      note(`event ${i}`);
      expect(await sum(1, 2)).to.equal(2);
      expect(await bot([{ user: 'ada' }], {})).to.equal('started');
    }
    while (received.length < 6) await new Promise(setImmediate);
    expect(received.filter((each) => typeof each === 'string')).to.deep.equal([
      'event 1',
      'event 2',
      'event 3',
    ]);
  }

  it('pass behind APP_GUARD, with one warning, and routes are limited', async () => {
    const app = await start(fixed(1));
    await expectAllPass(app);
    expect([await app.get(), await app.get()]).to.deep.equal([200, 429]);
    await new Promise(setImmediate);
    expect(warned).to.deep.equal(['HEADGATE_MESSAGE_UNLIMITED']);
  });

  it('pass if the keyGenerator asks for an address', async () => {
    await expectAllPass(
      await start({
        ...fixed(1),
        keyGenerator: (context) => clientKey(requestOf<{ ip?: string }>(context).ip),
      }),
    );
    await expectAllPass(
      await start({
        ...fixed(1),
        keyGenerator: async (context) => clientKey(requestOf<{ ip?: string }>(context).ip),
      }),
    );
  });

  it('pass without a warning if the options skip them', async () => {
    await expectAllPass(
      await start({ ...fixed(1), skip: (context: ExecutionContext) => context.getType() !== 'http' }),
    );
    await new Promise(setImmediate);
    expect(warned).to.deep.equal([]);
  });

  it('are limited by the key of a dimension that the options give', async () => {
    const app = await start({
      policies: [
        { ...fixed(1), name: 'address' },
        { ...fixed(2), name: 'shop', by: 'shop' },
      ],
      keys: { shop: () => 'books' },
    });
    expect([await app.sum(1), await app.sum(1)]).to.deep.equal([1, 1]);
    expect(await app.sum(1)).to.include({ title: 'Quota Exceeded', status: 429 });
    expect(await app.bot([{}], {})).to.equal('Quota Exceeded');
  });

  it('are limited by the key that the keyGenerator gives, whatever their arguments are', async () => {
    for (const args of [[[{ user: 'ada' }], {}], ['text'], [], [Object.freeze({})]]) {
      const app = await start({ ...fixed(1), keyGenerator: (context) => context.getType<string>() });
      expect(await app.sum(1)).to.equal(1);
      expect(await app.sum(1)).to.include({ title: 'Quota Exceeded', status: 429 });
      expect([await app.bot(...args), await app.bot(...args)]).to.deep.equal(['started', 'Quota Exceeded']);
    }
  });

  it('wait for their turn', async () => {
    const turn = { algorithm: 'leaky-bucket', limit: 100, window: '1s', burst: 1, maxDelay: '1m' } as const;
    for (const options of [
      { policies: [turn] },
      { limit: 1, window: '50ms', algorithm: 'fixed-window', wait: '1m' },
    ] as RateLimitModuleOptions[]) {
      const { sum } = await start({ ...options, keyGenerator: () => 'all', warnings: false });
      expect(await Promise.all([sum(1), sum(1), sum(1)])).to.deep.equal([1, 1, 1]);
    }
  });
});
