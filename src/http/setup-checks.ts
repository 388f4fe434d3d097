import { isIPv6 } from 'node:net';
import { setImmediate } from '../common/real-time.js';
import type { Framework } from './framework.js';
import type { Warn } from '../common/warnings.js';

/** The first so many requests of a limiter are looked at. */
const REQUESTS = 1000;

/** So many requests without a key, and none with one, are no coincidence. */
const KEYLESS = 100;

/** What a limiter's checks need to know of its options. */
interface Facts {
  readonly warn: Warn;
  /** Whether addresses matter whatever the key is: there are lists. */
  readonly lists: boolean;
  readonly ownKeys: boolean;
}

/** Looks at a limiter's first requests for mistakes of its set-up. */
export class SetupChecks<Req extends object> {
  readonly #framework: Framework<Req, never>;
  readonly #facts: Facts;
  #left = REQUESTS;
  #hadKey = false;
  #isNew = false;

  constructor(framework: Framework<Req, never>, facts: Facts) {
    this.#framework = framework;
    this.#facts = facts;
  }

  /** For a limiter that the user makes: one that has a request in the turn in which it was made, was made for that request. */
  made(): void {
    this.#isNew = true;
    setImmediate(() => (this.#isNew = false));
  }

  /** @returns whether there are requests left to look at */
  look(req: Req, key: string | undefined): boolean {
    const { warn, lists, ownKeys } = this.#facts;
    if (this.#isNew) warn('HEADGATE_LIMITER_IN_HANDLER', IN_HANDLER);
    this.#hadKey ||= key !== undefined;
    if (ownKeys && !this.#hadKey && REQUESTS - this.#left === KEYLESS - 1)
      warn('HEADGATE_NEVER_A_KEY', NEVER_A_KEY);
    const ip = this.#framework.ip(req);
    if (ownKeys && key !== undefined && key === ip && isIPv6(key))
      warn('HEADGATE_WHOLE_IPV6_KEY', WHOLE_IPV6);
    if (lists || (key !== undefined && (!ownKeys || key === ip))) this.#lookAtProxy(req, ip);
    return --this.#left > 0;
  }

  #lookAtProxy(req: Req, ip: string | undefined): void {
    const proxy = this.#framework.proxy?.(req);
    if (!proxy) return;
    const { warn } = this.#facts;
    const { headers, trusts, peer } = proxy;
    const isForwarded = headers['x-forwarded-for'] !== undefined;
    if (trusts === 'anybody') warn('HEADGATE_ANY_PROXY_TRUSTED', ANYBODY);
    // A proxy that is trusted is not taken for the client.
    const isUnread = trusts === 'some' && ip === peer && !String(headers['x-forwarded-for']).includes(ip!);
    if (isForwarded && (trusts === 'nobody' || isUnread)) warn('HEADGATE_UNTRUSTED_PROXY', UNTRUSTED);
    if (!isForwarded && headers['forwarded'] !== undefined && ip === peer) {
      warn('HEADGATE_FORWARDED_UNREAD', FORWARDED);
    }
  }
}

const IN_HANDLER =
  'A limiter was made while a request was answered, and then asked about that request. A limiter that is made for each request counts ' +
  'nothing. Make it once, when the application starts, and use it for all requests.';

const NEVER_A_KEY =
  `The keyGenerator has returned undefined for the first ${KEYLESS} requests, so that policies without \`by\` did not apply. If the key is of a user, the ` +
  "limiter may run before the user is known: mount it behind the authentication, on Fastify by hook: 'preHandler'. If most requests " +
  'have no key on purpose, silence this warning.';

const WHOLE_IPV6 =
  'The keyGenerator returns an IPv6 address as it is. A client has a whole network of addresses, and so as many quotas. Return ' +
  "clientKey(req.ip), of 'headgate/http'.";

const ANYBODY =
  "The framework trusts every proxy ('trust proxy' or trustProxy is true): a client can choose its address, and so escape its limit. Trust " +
  'the addresses of your proxies; or how many there are, for Express by their number and for Fastify by (_address, hop) => hop < number.';

const UNTRUSTED =
  'A request has X-Forwarded-For, but the framework does not trust the proxy that sent it. Behind a proxy all clients now have one key, that of the proxy. Set ' +
  "Express' 'trust proxy' to the addresses or the number of your proxies, or Fastify's trustProxy to their addresses: see docs/proxies.md. " +
  'Without a proxy, a client has sent it, and all is well.';

const FORWARDED =
  'A request has Forwarded, which the framework does not read. Behind a proxy all clients now have one key, that of the proxy. Let the proxy ' +
  'send X-Forwarded-For and trust it, or read the field in a keyGenerator.';
