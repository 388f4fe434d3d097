// GraphQL beyond HTTP requests under the documented global guard, by real sockets. Prints the failures.
import 'reflect-metadata';
import assert from 'node:assert/strict';
import { ApolloDriver } from '@nestjs/apollo';
import { Module } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { GraphQLModule, GraphQLSchemaHost, Query, Resolver, Subscription } from '@nestjs/graphql';
import { MercuriusDriver } from '@nestjs/mercurius';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { createHandler as sseOnExpress } from 'graphql-sse/lib/use/express';
import { createHandler as sseOnFastify } from 'graphql-sse/lib/use/fastify';
import { createClient } from 'graphql-ws';
import { RateLimit, RateLimitGuard, RateLimitModule, requestOf } from 'headgate/nestjs';
import { SubscriptionClient } from 'subscriptions-transport-ws';
import { WebSocket } from 'ws';

const fixed = (limit) => ({ algorithm: 'fixed-window', limit, window: '1m' });

async function* once(field) {
  yield { [field]: 'event' };
}

class Fields {
  events() {
    return once('events');
  }
  held() {
    return once('held');
  }
  field() {
    return 'value';
  }
}
for (const [name, ...decorators] of [
  ['events', Subscription('events')],
  ['held', Subscription('held'), RateLimit({ algorithm: 'concurrency', limit: 1, lease: '1m' })],
  ['field', Query('field'), RateLimit(fixed(2))],
]) {
  const descriptor = Object.getOwnPropertyDescriptor(Fields.prototype, name);
  for (const decorate of decorators) decorate(Fields.prototype, name, descriptor);
}
Resolver()(Fields);
const typeDefs = 'type Query { field: String } type Subscription { events: String held: String }';

/** Clients ask for one operation, and return its value or the error's message. */
const first = (subscribe) =>
  new Promise((resolve) => {
    const settle = ({ data, errors }) => resolve(errors ? errors[0].message : Object.values(data)[0]);
    subscribe({ next: settle, error: (error) => resolve((Array.isArray(error) ? error[0] : error).message) });
  });

const byGraphqlWs = (url) => {
  // By default the client closes its connection when no operation runs.
  const options = { webSocketImpl: WebSocket, retryAttempts: 0, lazy: false };
  const client = createClient({ url: url.replace('http', 'ws'), ...options });
  const ask = (query) => first((sink) => void client.subscribe({ query }, { complete: () => {}, ...sink }));
  return { ask, close: () => client.dispose() };
};

const byTransportWs = (url) => {
  const client = new SubscriptionClient(url.replace('http', 'ws'), { reconnect: false }, WebSocket);
  return {
    ask: (query) => first((sink) => void client.request({ query }).subscribe(sink)),
    close: () => client.close(),
  };
};

const bySse = (url) => ({
  ask: async (query) => {
    const headers = { 'content-type': 'application/json', accept: 'text/event-stream' };
    const response = await fetch(url.replace('graphql', 'sse'), {
      method: 'POST',
      headers,
      body: JSON.stringify({ query }),
    });
    const { data, errors } = JSON.parse(/^data: (\{.*)$/m.exec(await response.text())[1]);
    return errors ? errors[0].message : Object.values(data)[0];
  },
  close: () => {},
});

/** Each subscription is charged to the address of its connection, on all connections together. */
async function check({
  adapter,
  driver,
  options,
  connect,
  sse,
  operations = ['events', 'field'],
  holds = false,
}) {
  const keys = new Set();
  const limits = RateLimitModule.forRoot({
    ...fixed(3),
    onDecision: ({ key }, context) => void keys.add(key).add(typeof requestOf(context).headers),
  });
  class AppModule {}
  const server = GraphQLModule.forRoot({ driver, typeDefs, path: '/graphql', ...options });
  const guard = { provide: APP_GUARD, useClass: RateLimitGuard };
  Module({ imports: [limits, server], providers: [Fields, guard] })(AppModule);
  const app = await NestFactory.create(AppModule, adapter, {
    logger: false,
    abortOnError: false,
    forceCloseConnections: true,
  });
  let handle;
  if (sse)
    app
      .getHttpAdapter()
      .getInstance()
      .all('/sse', (...args) => handle(...args));
  await app.listen(0, '127.0.0.1');
  handle = sse?.({ schema: app.get(GraphQLSchemaHost).schema, context: ({ raw }) => ({ req: raw }) });
  const url = `http://127.0.0.1:${app.getHttpServer().address().port}/graphql`;
  const [one, other] = [connect(url), connect(url)];
  const denied = 'Quota Exceeded';
  try {
    const events = [];
    for (const client of [one, other, one, other]) events.push(await client.ask('subscription { events }'));
    assert.deepEqual(events, ['event', 'event', 'event', denied]);
    if (operations.includes('field')) {
      const fields = [];
      for (const client of [one, other, one]) fields.push(await client.ask('{ field }'));
      assert.deepEqual(fields, ['value', 'value', denied]);
    }
    assert.deepEqual(keys, new Set(['127.0.0.1', 'object']));
    if (!holds) return;
    assert.equal(await one.ask('subscription { held }'), 'event');
    assert.equal(await other.ask('subscription { held }'), denied);
    await one.close();
    // The server learns of the end in its own time.
    while ((await other.ask('subscription { held }')) === denied) await new Promise(setImmediate);
  } finally {
    await one.close();
    await other.close();
    await app.close();
  }
}

const express = () => new ExpressAdapter();
const fastify = () => new FastifyAdapter({ forceCloseConnections: true });
const graphqlWs = { subscriptions: { 'graphql-ws': true } };
const transportWs = {
  subscriptions: {
    'subscriptions-transport-ws': { onConnect: (_params, _socket, { request }) => ({ req: request }) },
  },
};
const onFastify = { context: (request, reply) => ({ req: request, res: reply }) };
const apollo = { driver: ApolloDriver };
const mercurius = {
  driver: MercuriusDriver,
  operations: ['events'],
  holds: true,
  options: { subscription: true },
};
const cases = {
  'graphql-ws by Apollo on Express': {
    ...apollo,
    adapter: express(),
    options: graphqlWs,
    connect: byGraphqlWs,
    holds: true,
  },
  'graphql-ws by Apollo on Fastify': {
    ...{ ...apollo, adapter: fastify(), options: { ...graphqlWs, ...onFastify } },
    ...{ connect: byGraphqlWs, holds: true },
  },
  'subscriptions-transport-ws by Apollo on Express': {
    ...{ ...apollo, adapter: express(), options: transportWs },
    ...{ connect: byTransportWs, holds: true },
  },
  'graphql-ws by Mercurius': { ...mercurius, adapter: fastify(), connect: byGraphqlWs },
  'subscriptions-transport-ws by Mercurius': { ...mercurius, adapter: fastify(), connect: byTransportWs },
  'graphql-sse on Express': { ...apollo, adapter: express(), connect: bySse, sse: sseOnExpress },
  'graphql-sse on Fastify': {
    driver: MercuriusDriver,
    adapter: fastify(),
    connect: bySse,
    sse: sseOnFastify,
  },
};
let passed = 0;
for (const [name, run] of Object.entries(cases)) {
  try {
    await check(run);
    passed++;
  } catch (error) {
    console.log(`${name}: ${error.stack}`);
  }
}
console.log(passed === Object.keys(cases).length ? 'works' : `${passed} passed`);
process.exit();
