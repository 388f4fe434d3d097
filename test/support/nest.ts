// Nest apps without decorator syntax, which would need a compiler option. Other tests run them with the packed package.
import 'reflect-metadata';
import {
  Controller,
  Module,
  RequestMapping,
  RequestMethod,
  Req,
  Res,
  UseGuards,
  type ArgumentsHost,
  type DynamicModule,
  type ExecutionContext,
  type INestApplication,
  type NestApplicationOptions,
  type Type,
} from '@nestjs/common';
import { APP_GUARD, BaseExceptionFilter, NestFactory, type AbstractHttpAdapter } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import {
  RateLimit,
  RateLimitFilter,
  RateLimitGuard,
  RateLimitModule,
  requestOf,
  type RateLimitOptions,
} from 'headgate/nestjs';
import type { AdapterUnderTest, App } from 'headgate-testing';

/** The platforms, which read a client's address from the proxy's header. */
export const platforms: Readonly<Record<string, () => AbstractHttpAdapter>> = {
  Express: () => {
    const adapter = new ExpressAdapter();
    adapter.getInstance<{ set(name: string, value: unknown): void }>().set('trust proxy', 'loopback');
    return adapter;
  },
  Fastify: () =>
    new FastifyAdapter({
      trustProxy: 'loopback',
      forceCloseConnections: true,
    }),
};

/** Decorates a method. */
export function decorate(type: Type, method: string, ...decorators: MethodDecorator[]): void {
  const prototype = type.prototype as object;
  const descriptor = Object.getOwnPropertyDescriptor(prototype, method)!;
  for (const each of decorators) each(prototype, method, descriptor);
}

/** Routes all HTTP methods of a path to a method. */
export const all = (path = '/') => RequestMapping({ path, method: RequestMethod.ALL });

/** A module with these controllers behind the guard. */
export function moduleOf(controllers: Type[], limits: DynamicModule): Type {
  class AppModule {}
  const guard = { provide: APP_GUARD, useClass: RateLimitGuard };
  Module({ imports: [limits], controllers, providers: [guard] })(AppModule);
  return AppModule;
}

/** An app that listens on a free port. */
export async function listen(
  module: Type,
  adapter: AbstractHttpAdapter,
  prepare: (app: INestApplication) => void = () => {},
): Promise<{ app: INestApplication; url: string }> {
  const options: NestApplicationOptions = { logger: false, abortOnError: false, forceCloseConnections: true };
  const app = await NestFactory.create(module, adapter, options);
  prepare(app);
  await app.listen(0, '127.0.0.1');
  return { app, url: `${await app.getUrl()}/` };
}

/** Answers an error with its code. */
class CodeFilter extends BaseExceptionFilter {
  override catch(error: { code?: string; message: string; getStatus?: unknown }, host: ArgumentsHost): void {
    if (typeof error.getStatus === 'function') return super.catch(error, host);
    const response: object = host.switchToHttp().getResponse();
    (this.applicationRef as AbstractHttpAdapter).reply(response, error.code ?? error.message, 500);
  }
}

interface RawResponse extends NodeJS.WritableStream {
  statusCode: number;
}

interface AnyResponse {
  readonly raw?: RawResponse;
  status(status: number): { send(body: unknown): void };
}

/** The adapter under test. */
export function nestAdapter(platform: string): AdapterUnderTest<ExecutionContext, unknown> {
  const start = async ({ limiters, answer }: App<ExecutionContext, unknown>) => {
    class RootController {
      async get(request: { context: ExecutionContext }, response: AnyResponse): Promise<void> {
        const { status = 200, body = 'ok' } = await answer(request.context);
        if (typeof body === 'string' || platform === 'Fastify') return response.status(status).send(body);
        response.status(status);
        body.pipe(response as unknown as RawResponse);
      }
    }
    Req()(RootController.prototype, 'get', 0);
    Res()(RootController.prototype, 'get', 1);
    decorate(RootController, 'get', all(), RateLimit(...(limiters as RateLimitOptions[])));
    Controller()(RootController);
    // The handler of a check takes the same arguments as the limiters' functions.
    const remember = {
      canActivate: (context: ExecutionContext) => {
        requestOf<{ context?: ExecutionContext }>(context).context = context;
        return true;
      },
    };
    UseGuards(remember)(RootController);
    const module = moduleOf([RootController], RateLimitModule.forRoot({ global: false }));
    const { app, url } = await listen(module, platforms[platform]!(), (each) =>
      each.useGlobalFilters(new CodeFilter(each.getHttpAdapter()), new RateLimitFilter()),
    );
    return { url, close: () => app.close() };
  };
  return {
    start,
    headerOf: (context, name) =>
      requestOf<{ headers: Record<string, string | undefined> }>(context).headers[name],
    decisionOf: (context) => requestOf<{ rateLimit?: never }>(context).rateLimit,
    statusOf: (response) => {
      const { raw, statusCode } = response as { raw?: RawResponse; statusCode: number };
      return raw?.statusCode ?? statusCode;
    },
  };
}
