// GraphQL servers and gateways of Nest with the packed package, as their clients see them. Prints the failures.
import 'reflect-metadata';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { ApolloDriver } from '@nestjs/apollo';
import { Catch, Module, UseFilters, UseGuards } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import { MercuriusDriver } from '@nestjs/mercurius';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { RateLimit, RateLimitGuard, RateLimitModule, SkipRateLimit } from 'headgate/nestjs';
import { io } from 'socket.io-client';
import { WebSocket } from 'ws';

const fixed = (limit) => ({ algorithm: 'fixed-window', limit, window: '1m' });
const slot = { algorithm: 'concurrency', limit: 1, lease: '1m' };
const guard = { provide: APP_GUARD, useClass: RateLimitGuard };

/** Decorates a method. */
function decorate(type, method, ...decorators) {
  const descriptor = Object.getOwnPropertyDescriptor(type.prototype, method);
  for (const each of decorators) each(type.prototype, method, descriptor);
}

/** An app that listens while `use` runs. */
async function withApp(adapter, imports, providers, use, sockets) {
  class AppModule {}
  Module({ imports: [RateLimitModule.forRoot(fixed(3)), ...imports], providers: [...providers, guard] })(
    AppModule,
  );
  const options = { logger: false, abortOnError: false, forceCloseConnections: true };
  const app = await NestFactory.create(AppModule, adapter, options);
  if (sockets) app.useWebSocketAdapter(new sockets(app));
  await app.listen(0, '127.0.0.1');
  try {
    await use(`http://127.0.0.1:${app.getHttpServer().address().port}`);
  } finally {
    await app.close();
  }
}

class Fields {
  twice() {
    return 'twice';
  }
  slot() {
    return 'slot';
  }
  free() {
    return 'free';
  }
  plain() {
    return 'plain';
  }
}
for (const name of ['twice', 'slot', 'free', 'plain']) decorate(Fields, name, Query(name));
decorate(Fields, 'twice', RateLimit(fixed(2)));
decorate(Fields, 'slot', RateLimit(slot));
decorate(Fields, 'free', SkipRateLimit());
Resolver()(Fields);

/** Fields are charged one by one, to the client of the whole request, and slots end with the response. */
async function graphql(adapter, driver, options = {}) {
  const typeDefs = 'type Query { twice: String slot: String free: String plain: String }';
  const server = GraphQLModule.forRoot({ driver, typeDefs, path: '/graphql', ...options });
  await withApp(adapter, [server], [Fields], async (url) => {
    /** The outcome of each field, and the response. */
    const ask = async (query) => {
      const body = JSON.stringify({ query });
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(`${url}/graphql`, { method: 'POST', headers, body });
      const { data, errors = [] } = await response.json();
      return { response, data, errors: errors.map(({ message, path }) => [...path, message].join(': ')) };
    };
    const first = await ask('{ a: twice free }');
    assert.deepEqual({ ...first.data }, { a: 'twice', free: 'free' });
    assert.equal(first.response.headers.get('ratelimit'), null);
    const second = await ask('{ a: twice b: twice free }');
    assert.equal(Object.values(second.data).filter((value) => value === null).length, 1);
    assert.equal(second.errors.length, 1);
    assert.match(second.errors[0], /^[ab]: Quota Exceeded$/);
    assert.equal(second.response.status, 200);
    assert.equal(second.response.headers.get('retry-after'), null);
    for (let i = 0; i < 2; i++) {
      const { data, errors } = await ask('{ a: slot b: slot }');
      assert.equal(Object.values(data).filter((value) => value === 'slot').length, 1);
      assert.equal(errors.length, 1);
    }
    const plain = await ask('{ a: plain b: plain c: plain d: plain }');
    assert.equal(plain.errors.length, 1);
  });
}

/** Nest 11 itself sends exceptions only to clients of socket.io. */
class TellSocket {
  catch(exception, host) {
    const client = host.switchToWs().getClient();
    const data = exception.getError();
    if (typeof client.send === 'function' && typeof client.readyState === 'number')
      client.send(JSON.stringify({ event: 'exception', data }));
    else client.emit('exception', data);
  }
}
Catch(WsException)(TellSocket);

class Chat {
  twice(data) {
    return { event: 'said', data };
  }
  slot(data) {
    return { event: 'said', data };
  }
  free(data) {
    return { event: 'said', data };
  }
}
for (const name of ['twice', 'slot', 'free']) {
  decorate(Chat, name, SubscribeMessage(name));
  MessageBody()(Chat.prototype, name, 0);
}
decorate(Chat, 'twice', RateLimit(fixed(2)));
decorate(Chat, 'slot', RateLimit(slot));
decorate(Chat, 'free', SkipRateLimit());
UseGuards(RateLimitGuard)(Chat);
UseFilters(TellSocket)(Chat);
WebSocketGateway()(Chat);

/** A client of ws that sends a message and receives the outcome. */
async function wsClient(url) {
  const socket = new WebSocket(url.replace('http', 'ws'));
  await once(socket, 'open');
  const say = async (event) => {
    socket.send(JSON.stringify({ event, data: 1 }));
    const [text] = await once(socket, 'message');
    const message = JSON.parse(text);
    return message.event === 'exception' ? message.data.title : message.event;
  };
  return { say, close: () => (socket.close(), once(socket, 'close')) };
}

/** A client of socket.io. */
async function ioClient(url) {
  const socket = io(url, { transports: ['websocket'], forceNew: true, reconnection: false });
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('connect_error', reject));
  const say = (event) =>
    new Promise((resolve) => {
      socket.removeAllListeners();
      socket.once('said', () => resolve('said')).once('exception', ({ title }) => resolve(title));
      socket.emit(event, 1);
    });
  return { say, close: () => socket.disconnect() };
}

/** Messages are charged one by one, to the address of the socket, and slots end with the connection. */
async function gateway(adapter, sockets, connect) {
  await withApp(
    adapter,
    [],
    [Chat],
    async (url) => {
      const [one, other] = [await connect(url), await connect(url)];
      const denied = 'Quota Exceeded';
      assert.deepEqual([await one.say('twice'), await other.say('twice')], ['said', 'said']);
      assert.deepEqual([await one.say('twice'), await other.say('twice')], [denied, denied]);
      assert.deepEqual([await one.say('free'), await one.say('free')], ['said', 'said']);
      assert.deepEqual([await one.say('slot'), await other.say('slot')], ['said', denied]);
      await one.close();
      // The server learns of the end a little later.
      while ((await other.say('slot')) === denied) await new Promise(setImmediate);
      await other.close();
    },
    sockets,
  );
}

const express = () => new ExpressAdapter();
const fastify = () => new FastifyAdapter({ forceCloseConnections: true });
const cases = {
  'GraphQL by Apollo on Express': () => graphql(express(), ApolloDriver),
  'GraphQL by Apollo on Fastify': () =>
    graphql(fastify(), ApolloDriver, { context: (request, reply) => ({ req: request, res: reply }) }),
  'GraphQL by Mercurius on Fastify': () => graphql(fastify(), MercuriusDriver),
  'a gateway of ws on Express': () => gateway(express(), WsAdapter, wsClient),
  'a gateway of ws on Fastify': () => gateway(fastify(), WsAdapter, wsClient),
  'a gateway of socket.io on Express': () => gateway(express(), IoAdapter, ioClient),
  'a gateway of socket.io on Fastify': () => gateway(fastify(), IoAdapter, ioClient),
};
let passed = 0;
for (const [name, run] of Object.entries(cases)) {
  try {
    await run();
    passed++;
  } catch (error) {
    console.log(`${name}: ${error.stack}`);
  }
}
console.log(passed === Object.keys(cases).length ? 'works' : `${passed} passed`);
