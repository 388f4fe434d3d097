// The module of throttler-named.ts with Headgate, with a quota for each handler. See docs/migrating/nestjs-throttler.md.
import 'reflect-metadata';
import { Controller, Get, Module, type ExecutionContext } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { clientKey } from 'headgate/http';
import { RateLimit, RateLimitGuard, RateLimitModule, requestOf, SkipRateLimit } from 'headgate/nestjs';

/** The class, the handler and the client's address: a quota for each handler. */
function keyGenerator(context: ExecutionContext): string {
  const { ip } = requestOf<{ ip?: string }>(context);
  return [context.getClass().name, context.getHandler().name, clientKey(ip)].join(' ');
}

@Controller()
class ShopController {
  @Get('list')
  list() {
    return 'list';
  }

  @Get('login')
  @RateLimit({ replaces: 'short', limit: 1, window: '1m' })
  login() {
    return 'welcome';
  }

  @Get('news')
  @SkipRateLimit('short')
  news() {
    return 'news';
  }
}

@Module({
  imports: [
    RateLimitModule.forRoot({
      policies: ['short=2/1m', 'long=4/1h'],
      keyGenerator,
    }),
  ],
  controllers: [ShopController],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(3000);
