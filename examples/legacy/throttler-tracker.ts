// A throttler's own `getTracker` and `generateKey`; throttler-tracker-moved.ts is the same with Headgate. See docs/migrating/nestjs-throttler.md.
import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler';

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
    ThrottlerModule.forRoot([
      { name: 'address', ttl: 60_000, limit: 4 },
      {
        name: 'account',
        ttl: 60_000,
        limit: 2,
        getTracker: ({ headers }) => String((headers as Record<string, string>)['x-account'] ?? 'anonymous'),
        // One quota of the account for all handlers.
        generateKey: (_context, tracker, name) => `${name} ${tracker}`,
      },
    ]),
  ],
  controllers: [ShopController],
  providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(3000);
