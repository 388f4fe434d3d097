import { DOCS } from '../common/errors.js';
import { isIP, isIPv6 } from 'node:net';
import type { Warn, WarningCode } from '../common/warnings.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import type { PolicySet } from '../contract/store.js';
import { FirstQuestion, isTest, type Streak } from '../limiter/setup-checks.js';
import type { ClientKey } from './client-key.js';
import type { Framework, Proxies } from './framework.js';

/** The number of checked requests per limiter. */
const REQUESTS = 1000;

/** The number of requests without any key that cannot be a coincidence. */
const KEYLESS_REQUESTS = 100;

/**
 * The number of limiters in a row that cannot be a coincidence. Tests create applications for one or two requests, sent in the same turn
 * of the event loop.
 */
const MAX_LIMITERS_IN_A_ROW = 5;

/** A single limiter that is created late receives further requests before another limiter is created. */
const madeForRequests: Streak = {
  most: MAX_LIMITERS_IN_A_ROW,
  warning:
    `${MAX_LIMITERS_IN_A_ROW} limiters in a row were each created for a single request. A limiter that is created for each request limits nothing. ` +
    'Create it once, when the application starts, and use it for all requests. If you keep a limiter for each tenant, ignore this warning.',
  length: 0,
};

/** A limiter's options, as far as the checks need options. */
interface Facts {
  readonly warn: Warn;
  /** Whether addresses matter regardless of the keys, because there are lists. */
  readonly lists: boolean;
  /** For each dimension: the name of the user's option for its keys. */
  readonly keyOptions: Readonly<Record<string, string>>;
  readonly clientKey: ClientKey;
}

/** Checks a limiter's first requests for mistakes in the configuration. */
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

  /** For limiters created by a user: a limiter with a request in the same turn of the event loop was created for the request. */
  made(): void {
    if (!isTest()) this.#firstQuestion = new FirstQuestion(this.#facts.warn, madeForRequests);
  }

  /** Checks a request that may be limited. @returns whether further requests must be checked */
  look(req: Req): boolean {
    this.#firstQuestion?.check();
    if (this.#facts.lists) this.#lookAtProxy(req, this.#framework.ip(req));
    return --this.#left > 0;
  }

  /** @param key the key that the policies of `set` count, or `undefined` if the request is not limited */
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
    const made = Object.values(keyOptions);
    if (!this.#hadKey && made.length > 0 && ++this.#keyless === KEYLESS_REQUESTS)
      warn('HEADGATE_NEVER_A_KEY', neverAKey(made, KEYLESS_REQUESTS));
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
    for (const [code, isDue, text] of PROXY_WARNINGS) if (isDue(proxy, ip)) this.#facts.warn(code, text);
  }
}

const isForwarded = ({ headers }: Proxies): boolean => headers['x-forwarded-for'] !== undefined;

/** Whether the framework trusts some proxies, but not the sender of the request, whose address then is not in X-Forwarded-For. */
const isUnread = ({ trusts, peer, headers }: Proxies, ip: string | undefined): boolean =>
  trusts === 'some' && ip === peer && !String(headers['x-forwarded-for']).includes(ip!);

/** The warnings about proxies: code, condition and text. */
const PROXY_WARNINGS: readonly [WarningCode, (proxy: Proxies, ip: string | undefined) => boolean, string][] =
  [
    [
      'HEADGATE_ANY_PROXY_TRUSTED',
      ({ trusts }) => trusts === 'anybody',
      "The framework trusts every proxy ('trust proxy' or trustProxy is true, or Koa's proxy without maxIpsCount), so a client can choose its address and escape its limit. Trust " +
        'the addresses of your proxies, or their number: for Express the number, for Fastify (_address, hop) => hop < number, for Koa maxIpsCount.',
    ],
    [
      'HEADGATE_UNTRUSTED_PROXY',
      (proxy, ip) => isForwarded(proxy) && (proxy.trusts === 'nobody' || isUnread(proxy, ip)),
      'A request has X-Forwarded-For, but the framework does not trust the proxy that sent it. If a proxy is in front, all clients currently share its key. Set ' +
        `Express' 'trust proxy' to the addresses or the number of your proxies, Fastify's trustProxy to their addresses, or Koa's proxy to true and maxIpsCount to the number; on a server without such a setting, pass \`clientIp\`: see ${DOCS}/proxies.md. ` +
        'If no proxy is in front, a client sent the header; ignore this warning.',
    ],
    [
      'HEADGATE_FORWARDED_UNREAD',
      (proxy, ip) => !isForwarded(proxy) && proxy.headers['forwarded'] !== undefined && ip === proxy.peer,
      'A request has Forwarded, which the framework does not read. If a proxy is in front, all clients currently share its key. Let the proxy ' +
        'send X-Forwarded-For, and trust the proxy; or read the field in a keyGenerator.',
    ],
  ];

const neverAKey = (options: readonly string[], requests: number): string =>
  `For the first ${requests} requests ${options.join(' and ')} returned undefined, and the policies by that key did not limit them. If the key ` +
  "identifies a user, the limiter may run before authentication: mount it after the authentication, on Fastify with hook: 'preHandler'. If " +
  'most requests have no key on purpose, silence this warning.';

const wholeIPv6 = (option: string): string =>
  `${option} returns a key with a complete IPv6 address. A client has a network of addresses, and gets a quota for each address. Use ` +
  "clientKey(req.ip) of 'headgate/http' instead of the address.";

/** Whether a key contains an address. An address that begins with colons may be the end of another text: `tenant::1`. */
function contains(key: string, ip: string): boolean {
  const at = key.indexOf(ip);
  return at >= 0 && !(ip.startsWith(':') && /\w/.test(key[at - 1] ?? ''));
}
