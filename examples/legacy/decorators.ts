// Legacy decorators (`experimentalDecorators`), as NestJS uses them: a limit on a provider's methods, for all callers.
//
//   npx tsx --tsconfig examples/legacy/tsconfig.json examples/legacy/decorators.ts
import 'reflect-metadata';
import { Inject, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { createLimiter, HeadgateError } from 'headgate';
import { RateLimited } from 'headgate/decorators';

/** The limiter of two methods that share one quota. */
const partnerApi = createLimiter({ name: 'partner', limit: 3, window: '1m' });

@Injectable()
class PartnerService {
  constructor(@Inject('TENANT') private readonly tenant: string) {}

  @RateLimited({
    limiter: partnerApi,
    key(this: PartnerService) {
      return this.tenant;
    },
    fallback: 'cached',
    passArgs: true,
  })
  async price(article: string): Promise<string> {
    return `${article}: 9.90 for ${this.tenant}`;
  }

  @RateLimited({
    limiter: partnerApi,
    cost: (articles: string[]) => articles.length,
    key(this: PartnerService) {
      return this.tenant;
    },
  })
  async order(articles: string[]): Promise<string> {
    return `ordered ${articles.join(' and ')}`;
  }

  async cached(article: string): Promise<string> {
    return `${article}: 9.80, from the cache`;
  }
}

@Injectable()
@RateLimited({ limit: 1, window: '1h', key: (report: string) => report })
class ReportService {
  async build(report: string): Promise<string> {
    return `built ${report}`;
  }

  static async list(prefix: string): Promise<string> {
    return `${prefix}sales, ${prefix}stock`;
  }
}

@Module({ providers: [{ provide: 'TENANT', useValue: 'acme' }, PartnerService, ReportService] })
class AppModule {}

/** Without a fallback, a denied call rejects. */
async function attempt(call: Promise<string>): Promise<string> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof HeadgateError && error.decision) return `denied: ${error.decision.reason}`;
    throw error;
  }
}

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
const partner = app.get(PartnerService);
const reports = app.get(ReportService);
console.log(await partner.price('tea'));
console.log(await partner.order(['tea', 'milk']));
console.log(await partner.price('tea'));
console.log(await attempt(partner.order(['sugar'])));
console.log(await reports.build('sales'), '/', await attempt(reports.build('sales')));
console.log(await reports.build('stock'));
console.log(await ReportService.list('q1-'), '/', await attempt(ReportService.list('q1-')));
await app.close();
