// The options of a plugin or a module are defaults: where one has no use, it is ignored. The same option on a route is refused there.
import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { expect } from 'chai';
import Fastify from 'fastify';
import { memoryStore, type HeadgateError } from 'headgate';
import { rateLimitPlugin } from 'headgate/fastify';
import { RateLimit, RateLimitModule } from 'headgate/nestjs';
import { all, decorate, platforms } from '../support/nest.js';

type Options = Record<string, unknown>;

/** Makes an application whose plugin has such defaults, and a route with such options. */
const frameworks: Record<string, (defaults: Options, route: Options) => Promise<void>> = {
  Fastify: async (defaults, route) => {
    const app = Fastify();
    try {
      await app.register(rateLimitPlugin, defaults as never);
      app.get('/', { config: { rateLimit: route as never } }, () => 'ok');
      await app.ready();
    } finally {
      await app.close();
    }
  },
  Nest: async (defaults, route) => {
    class Root {
      get() {}
    }
    decorate(Root, 'get', all(), RateLimit(route));
    Controller()(Root);
    class AppModule {}
    Module({ imports: [RateLimitModule.forRoot(defaults as never)], controllers: [Root] })(AppModule);
    const options = { logger: false, abortOnError: false } as const;
    const app = await NestFactory.create(AppModule, platforms['Express']!(), options);
    try {
      await app.init();
    } finally {
      await app.close();
    }
  },
};

const quota = { limit: 5, window: '1m' };
const keys = { account: () => 'ada' };
const byTokens = { policies: [{ ...quota, name: 'tokens' }], cost: { tokens: 2 } };
const secret = 'a secret of 16 letters or more';

/** Defaults, the options of a route without a use for the defaults, and the option that only the route itself may not have. */
const cases: [option: string, defaults: Options, route: Options][] = [
  ['keys', { ...quota, keys }, quota],
  ['keys', { ...quota, by: 'account', keys }, quota],
  ['keys', { ...quota, keys }, { cost: 2 }],
  ['maxWaiting', { ...quota, maxWaiting: 50 }, quota],
  ['maxWaitingPerKey', { ...quota, wait: '1s', maxWaitingPerKey: 5 }, { ...quota, wait: undefined }],
  ['maxWaiting', { ...quota, maxWaiting: 50 }, { cost: 2 }],
  ['onThreshold', { ...quota, onThreshold: () => {} }, quota],
  ['onThreshold', { ...quota, thresholds: [1], onThreshold: () => {} }, quota],
  ['cost', byTokens, quota],
  ['partitionKey', { ...quota, partitionKey: secret }, { ...quota, headers: 'draft-6' }],
  ['partitionKey', { ...quota, partitionKey: true }, { ...quota, store: memoryStore() }],
];

/** What a wrong application fails with, or undefined. */
async function errorOf(start: Promise<void>): Promise<HeadgateError | undefined> {
  return start.then(
    () => undefined,
    (error: HeadgateError) => error,
  );
}

for (const [name, start] of Object.entries(frameworks)) {
  describe(`defaults on ${name}`, () => {
    for (const [option, defaults, route] of cases) {
      it(`${option} of ${JSON.stringify(defaults)} for ${JSON.stringify(route)}`, async () => {
        expect(await errorOf(start(defaults, route))).to.equal(undefined);
      });
    }

    it('the same options on a route that has no use for them are refused', async () => {
      for (const [option, defaults, route] of cases.filter(([, { wait }, { limit }]) => limit && !wait)) {
        const error = await errorOf(start({}, { ...route, [option]: defaults[option] }));
        expect(error?.message, option).to.match(new RegExp(option));
      }
    });

    it('a route that has a use for them has them', async () => {
      expect(await errorOf(start({ ...quota, keys }, { ...quota, by: 'account' }))).to.equal(undefined);
      const small = { ...quota, maxWaiting: 5 };
      const route = { ...quota, wait: '1s', maxWaitingPerKey: 6 };
      expect((await errorOf(start(small, route)))?.message).to.match(/(^|: )maxWaitingPerKey: 6 .* 1 to 5/);
      const dear = { policies: [{ ...quota, limit: 9, name: 'tokens' }], cost: { tokens: 6 } };
      const tokens = { policies: [{ ...quota, name: 'tokens' }] };
      expect((await errorOf(start(dear, tokens)))?.message).to.match(/(^|: )cost: .* more than 5/);
    });
  });
}
