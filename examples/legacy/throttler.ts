// A module of @nestjs/throttler; throttler-moved.ts is the same with Headgate. See docs/migrating/nestjs-throttler.md.
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
  @Throttle({ default: { ttl: 60_000, limit: 2 } })
  login() {
    return 'welcome';
  }

  @Get('health')
  @SkipThrottle()
  health() {
    return 'ok';
  }
}

@Module({
  imports: [ThrottlerModule.forRoot([{ ttl: 60_000, limit: 4 }])],
  controllers: [ShopController],
  providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(3000);
