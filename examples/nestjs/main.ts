// NestJS: a guard for the whole application, and a decorator for what has a limit of its own.
//
//   npx tsx --tsconfig examples/nestjs/tsconfig.json examples/nestjs/main.ts
import 'reflect-metadata';
import {
  Controller,
  Get,
  HttpException,
  Inject,
  Injectable,
  Module,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { APP_GUARD, NestFactory, Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { createLimiter, memoryStore, type Limiter, type Policy } from 'headgate';
import { clientKey, denial, rateLimitHeaders } from 'headgate/http';

/** `@RateLimit([{ limit: 5, window: '10s' }])` on a method or a controller; `@RateLimit([])`: not limited. */
const RateLimit = Reflector.createDecorator<Policy[]>();

@Injectable()
class RateLimitGuard implements CanActivate {
  readonly #store = memoryStore(); // Or redisStore(redis): all instances share the quotas.
  readonly #global = createLimiter({ name: 'global', store: this.#store, limit: 100, window: '1m' });
  readonly #own = new Map<Policy[], Limiter>();

  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const limiter = this.#limiterOf(context);
    if (!limiter) return true;
    const http = context.switchToHttp();
    const decision = await limiter.consume(clientKey(http.getRequest<Request>().ip));
    const response = http.getResponse<Response>();
    if (decision.allowed) {
      response.set(rateLimitHeaders(decision));
      return true;
    }
    const { status, headers, body } = denial(decision);
    response.set(headers);
    throw new HttpException(JSON.parse(body) as object, status);
  }

  #limiterOf(context: ExecutionContext): Limiter | undefined {
    const policies = this.reflector.getAllAndOverride(RateLimit, [context.getHandler(), context.getClass()]);
    if (!policies) return this.#global;
    if (policies.length === 0) return undefined;
    let limiter = this.#own.get(policies);
    if (!limiter) {
      const name = `${context.getClass().name}.${context.getHandler().name}`;
      this.#own.set(policies, (limiter = createLimiter({ name, store: this.#store, policies })));
    }
    return limiter;
  }
}

@Controller()
class AppController {
  @Get()
  hello() {
    return 'Hello\n';
  }

  @Get('search')
  @RateLimit([{ limit: 2, window: '10s' }])
  search() {
    return 'found\n';
  }

  @Get('health')
  @RateLimit([])
  health() {
    return 'ok\n';
  }
}

@Module({ controllers: [AppController], providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error'] });
const port = Number(process.env.PORT ?? 3000);
await app.listen(port);
console.log(`http://localhost:${port}`);
