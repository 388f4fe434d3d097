// Limits on functions, methods and classes instead of requests, with standard decorators.
//
//   npx tsx examples/decorators-standard.ts
import { HeadgateError } from 'headgate';
import { rateLimited, RateLimited } from 'headgate/decorators';

// A function of another module: 10 calls a second. Later calls wait their turn, at most two seconds.
const geocode = rateLimited((address: string) => ({ address, lat: 52.5, lon: 13.4 }), {
  algorithm: 'token-bucket',
  limit: 10,
  window: '1s',
  burst: 2,
  wait: { timeout: '2s' },
});

class Mailer {
  readonly sent: string[] = [];
  readonly later: string[] = [];

  /** Two mails per recipient and hour. Further mails go to the digest. */
  @RateLimited({ limit: 2, window: '1h', key: (to: string) => to, fallback: 'digest', passArgs: true })
  async send(to: string, text: string): Promise<string> {
    this.sent.push(`${to}: ${text}`);
    return 'sent';
  }

  async digest(to: string, text: string): Promise<string> {
    this.later.push(`${to}: ${text}`);
    return 'in the digest';
  }
}

// Each method has a separate quota, and `refund` a different one.
@RateLimited({ limit: 1, window: '1m', key: (customer: string) => customer })
class Billing {
  async invoice(customer: string): Promise<string> {
    return `invoice for ${customer}`;
  }

  async remind(customer: string): Promise<string> {
    return `reminder for ${customer}`;
  }

  @RateLimited({
    limit: 100,
    window: '1d',
    key: (customer: string) => customer,
    cost: (_customer: string, euros: number) => euros,
  })
  async refund(customer: string, euros: number): Promise<string> {
    return `${euros} euros for ${customer}`;
  }
}

/** Without a fallback, a denied call rejects. */
async function attempt(call: Promise<string>): Promise<string> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof HeadgateError && error.decision) return `denied: ${error.decision.reason}`;
    throw error;
  }
}

const places = await Promise.all(['Oslo', 'Rome', 'Lima', 'Bonn'].map((name) => geocode(name)));
console.log(places.map(({ address }) => address).join(', '));

const mailer = new Mailer();
for (const text of ['one', 'two', 'three']) console.log(await mailer.send('ada@example.org', text));
console.log(await mailer.send('bob@example.org', 'one'));

const billing = new Billing();
console.log(await billing.invoice('ada'), '/', await attempt(billing.invoice('ada')));
console.log(await billing.remind('ada'));
console.log(await billing.refund('ada', 60), '/', await attempt(billing.refund('ada', 60)));
