// NestJS: a guard for the whole application, and decorators for what has a limit of its own.
//
//   npx tsx --tsconfig examples/nestjs/tsconfig.json examples/nestjs/main.ts
import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, NestFactory } from '@nestjs/core';
import { memoryStore } from 'headgate';
import { RateLimit, RateLimitFilter, RateLimitGuard, RateLimitModule, SkipRateLimit } from 'headgate/nestjs';

@Controller()
class AppController {
  @Get()
  hello() {
    return 'Hello\n';
  }

  @Get('search')
  @RateLimit({ limit: 2, window: '10s' })
  search() {
    return 'found\n';
  }

  @Get('health')
  @SkipRateLimit()
  health() {
    return 'ok\n';
  }
}

@Module({
  // Or redisStore(redis): all instances share the quotas.
  imports: [RateLimitModule.forRoot({ store: memoryStore(), limit: 100, window: '1m' })],
  controllers: [AppController],
  providers: [
    { provide: APP_GUARD, useClass: RateLimitGuard },
    { provide: APP_FILTER, useClass: RateLimitFilter },
  ],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error'] });
const port = Number(process.env.PORT ?? 3000);
await app.listen(port);
console.log(`http://localhost:${port}`);
