// The module of throttler-tracker.ts with Headgate: a dimension takes the place of a tracker. See docs/migrating/nestjs-throttler.md.
import 'reflect-metadata';
import { Controller, Get, Module, type ExecutionContext } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { clientKey } from 'headgate/http';
import { RateLimitGuard, RateLimitModule, requestOf } from 'headgate/nestjs';

interface Request {
  ip?: string;
  headers: Record<string, string | undefined>;
}

/** The class, the handler and the client's address: a quota for each handler. */
function keyGenerator(context: ExecutionContext): string {
  const { ip } = requestOf<Request>(context);
  return [context.getClass().name, context.getHandler().name, clientKey(ip)].join(' ');
}

@Controller()
class ShopController {
  @Get('list')
  list() {
    return 'list';
  }

  @Get('news')
  news() {
    return 'news';
  }
}

@Module({
  imports: [
    RateLimitModule.forRoot({
      policies: ['address=fixed-window 4/1m', 'account=fixed-window 2/1m by account'],
      keyGenerator,
      keys: { account: (context) => requestOf<Request>(context).headers['x-account'] ?? 'anonymous' },
    }),
  ],
  controllers: [ShopController],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(3000);
