import { isIP, isIPv6 } from 'node:net';
import type { Warn } from '../common/warnings.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import type { PolicySet } from '../contract/store.js';
import { FirstQuestion, isTest, type Streak } from '../limiter/setup-checks.js';
import type { ClientKey } from './client-key.js';
import type { Framework } from './framework.js';

/** How many requests of a limiter are checked. */
const REQUESTS = 1000;

/** From this many requests without any key on, it is no coincidence. */
const KEYLESS = 100;

/** Tests make applications for a request or two, which they ask in the same turn of the event loop. */
const MOST_IN_A_ROW = 5;

/** A single limiter that is made late is asked again before another one is made. */
const madeForRequests: Streak = {
  most: MOST_IN_A_ROW,
  warning:
    `${MOST_IN_A_ROW} limiters in a row were each made for a single request. A limiter that is made for each request limits nothing. ` +
    'Make it once, when the application starts, and use it for all requests. If you keep one for each tenant, all is well.',
  length: 0,
};

/** What the checks of a limiter need to know about its options. */
interface Facts {
  readonly warn: Warn;
  /** Whether addresses matter whatever the keys are, because there are lists. */
  readonly lists: boolean;
  /** For each dimension: the name of the user's option that returns its keys. */
  readonly keyOptions: Readonly<Record<string, string>>;
  /** The default key of an address. */
  readonly clientKey: ClientKey;
}

/** Checks a limiter's first requests for mistakes in its set-up. */
export class SetupChecks<Req extends object> {
  readonly #framework: Framework<Req, never>;
  readonly #facts: Facts;
  #left = REQUESTS;
  #hadKey = false;
  #keyless = 0;
  readonly #seen = new Set<string>();
  #firstQuestion: FirstQuestion | undefined;

  constructor(framework: Framework<Req, never>, facts: Facts) {
    this.#framework = framework;
    this.#facts = facts;
  }

  /** For limiters that a user makes: one that receives a request in the same turn of the event loop was made for that request. */
  made(): void {
    if (!isTest()) this.#firstQuestion = new FirstQuestion(this.#facts.warn, madeForRequests);
  }

  /** Checks a request that may be limited. @returns whether further requests must be checked */
  look(req: Req): boolean {
    this.#firstQuestion?.check();
    if (this.#facts.lists) this.#lookAtProxy(req, this.#framework.ip(req));
    return --this.#left > 0;
  }

  /** @param key the key by which the policies of `set` count the request; undefined: the request is not limited */
  lookAtKey(req: Req, key: Key | undefined, set?: PolicySet): void {
    const { warn, keyOptions } = this.#facts;
    const names = set?.dimensions?.names ?? [DEFAULT_DIMENSION];
    const keys = names.flatMap((name) => {
      const its = typeof key === 'object' ? key[name] : name === DEFAULT_DIMENSION ? key : undefined;
      return its === undefined ? [] : { key: its, option: keyOptions[name] };
    });
    for (const { option } of keys) if (option !== undefined) this.#seen.add(option);
    if (this.#hadKey && this.#left === 1) {
      const options = names.flatMap((name) => keyOptions[name] ?? []);
      const unseen = options.filter((option) => !this.#seen.has(option));
      if (unseen.length > 0) warn('HEADGATE_NEVER_A_KEY', neverAKey(unseen, REQUESTS - 1));
    }
    this.#hadKey ||= keys.length > 0;
    if (!this.#hadKey && ++this.#keyless === KEYLESS)
      warn('HEADGATE_NEVER_A_KEY', neverAKey(Object.values(keyOptions), KEYLESS));
    const ip = this.#framework.ip(req);
    if (ip === undefined) return;
    const ofClient = keys.filter((each) => this.#isOf(ip, each.key));
    if (ofClient.length > 0) this.#lookAtProxy(req, ip);
    const whole = ofClient.find((each) => each.option !== undefined && isIPv6(ip) && contains(each.key, ip));
    if (whole) warn('HEADGATE_WHOLE_IPV6_KEY', wholeIPv6(whole.option!));
  }

  /** Whether a key contains the client's address, or the network of the address. */
  #isOf(ip: string, key: string): boolean {
    return contains(key, ip) || (isIP(ip) > 0 && contains(key, this.#facts.clientKey(ip)));
  }

  #lookAtProxy(req: Req, ip: string | undefined): void {
    const proxy = this.#framework.proxy?.(req);
    if (!proxy) return;
    const { warn } = this.#facts;
    const { headers, trusts, peer } = proxy;
    const isForwarded = headers['x-forwarded-for'] !== undefined;
    if (trusts === 'anybody') warn('HEADGATE_ANY_PROXY_TRUSTED', ANYBODY);
    // A trusted proxy's own address is not mistaken for the client's.
    const isUnread = trusts === 'some' && ip === peer && !String(headers['x-forwarded-for']).includes(ip!);
    if (isForwarded && (trusts === 'nobody' || isUnread)) warn('HEADGATE_UNTRUSTED_PROXY', UNTRUSTED);
    if (!isForwarded && headers['forwarded'] !== undefined && ip === peer) {
      warn('HEADGATE_FORWARDED_UNREAD', FORWARDED);
    }
  }
}

const neverAKey = (options: readonly string[], requests: number): string =>
  `For the first ${requests} requests ${options.join(' and ')} returned undefined, and the policies by that key did not limit them. If the key ` +
  "is of a user, the limiter may run before the user is known: mount it behind the authentication, on Fastify by hook: 'preHandler'. If " +
  'most requests have no key on purpose, silence this warning.';

const wholeIPv6 = (option: string): string =>
  `${option} returns a text with a whole IPv6 address. A client has a network of addresses, so it gets a quota for each of them. Use ` +
  "clientKey(req.ip) of 'headgate/http' instead of the address.";

/** Whether a key contains an address. An address that begins with colons may be the end of another text: `tenant::1`. */
function contains(key: string, ip: string): boolean {
  const at = key.indexOf(ip);
  return at >= 0 && !(ip.startsWith(':') && /\w/.test(key[at - 1] ?? ''));
}

const ANYBODY =
  "The framework trusts every proxy ('trust proxy' or trustProxy is true): a client can choose its address, and so escape its limit. Trust " +
  'the addresses of your proxies; or how many there are, for Express by their number and for Fastify by (_address, hop) => hop < number.';

const UNTRUSTED =
  'A request has X-Forwarded-For, but the framework does not trust the proxy that sent it. Behind a proxy all clients now have one key, that of the proxy. Set ' +
  "Express' 'trust proxy' to the addresses or the number of your proxies, or Fastify's trustProxy to their addresses; on a server without such a setting, write `clientIp`: see docs/keys.md. " +
  'Without a proxy, a client has sent it, and all is well.';

const FORWARDED =
  'A request has Forwarded, which the framework does not read. Behind a proxy all clients now have one key, that of the proxy. Let the proxy ' +
  'send X-Forwarded-For and trust it, or read the field in a keyGenerator.';
