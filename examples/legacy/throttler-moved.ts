// The module of throttler.ts with Headgate. See docs/migrating/nestjs-throttler.md.
import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { RateLimit, RateLimitGuard, RateLimitModule, SkipRateLimit } from 'headgate/nestjs';

@Controller()
class ShopController {
  @Get('list')
  list() {
    return 'list';
  }

  @Get('login')
  @RateLimit('fixed-window 2/1m')
  login() {
    return 'welcome';
  }

  @Get('health')
  @SkipRateLimit()
  health() {
    return 'ok';
  }
}

@Module({
  imports: [
    RateLimitModule.forRoot({
      ...{ algorithm: 'fixed-window', limit: 4, window: '1m' },
      headers: 'legacy-seconds',
    }),
  ],
  controllers: [ShopController],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(3000);
