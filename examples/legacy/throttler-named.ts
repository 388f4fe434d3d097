// Named throttlers of @nestjs/throttler; throttler-named-moved.ts is the same with Headgate. See docs/migrating/nestjs-throttler.md.
import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { SkipThrottle, Throttle, ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler';

@Controller()
class ShopController {
  @Get('list')
  list() {
    return 'list';
  }

  @Get('login')
  @Throttle({ short: { ttl: 60_000, limit: 1 } })
  login() {
    return 'welcome';
  }

  @Get('news')
  @SkipThrottle({ short: true })
  news() {
    return 'news';
  }
}

@Module({
  imports: [
    ThrottlerModule.forRoot([
      { name: 'short', ttl: 60_000, limit: 2 },
      { name: 'long', ttl: 3_600_000, limit: 4 },
    ]),
  ],
  controllers: [ShopController],
  providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(3000);
