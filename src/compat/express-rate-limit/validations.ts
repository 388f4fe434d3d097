import { isIP } from 'node:net';
import type { Request } from 'express';
import { invalidOption } from '../../common/errors.js';
import { oncePer } from '../../common/lazy.js';
import type { EnabledValidations, Logger, Options, Store, ValidationName } from './types.js';

/** A likely misconfiguration. The pages of express-rate-limit explain the codes. */
class ValidationError extends Error {
  readonly code: string;
  readonly help: string;

  constructor(code: string, message: string) {
    const help = `https://express-rate-limit.github.io/${code}/`;
    super(`${message} See ${help} for more information.`);
    this.name = this.constructor.name;
    this.code = code;
    this.help = help;
  }
}

/** A difference from another version of express-rate-limit. */
class ChangeWarning extends ValidationError {}

const DRAFTS = ['draft-6', 'draft-7', 'draft-8'];

const KNOWN_OPTIONS = [
  ...['windowMs', 'limit', 'message', 'statusCode', 'legacyHeaders', 'standardHeaders', 'identifier'],
  ...['retryAfter', 'requestPropertyName', 'skipFailedRequests', 'skipSuccessfulRequests', 'keyGenerator'],
  ...['ipv6Subnet', 'handler', 'skip', 'requestWasSuccessful', 'store', 'validate', 'headers', 'max'],
  ...['passOnStoreError', 'logger', 'name', 'timeout'],
  // This option has its own validation.
  'draft_polli_ratelimit_headers',
  // express-slow-down passes its options on.
  ...['delayAfter', 'delayMs', 'maxDelayMs'],
];

const usedStores = new WeakSet<object>();
/** The keys that each request has counted, per store, or per class of stores with common keys. */
const countedKeys = oncePer((_: Request) => new Map<unknown, string[]>());

/** Each check throws the error or warning that is logged. */
const checks = {
  ip(ip: string | undefined) {
    if (ip === undefined) {
      throw new ValidationError(
        'ERR_ERL_UNDEFINED_IP_ADDRESS',
        'request.ip is undefined: the app is misconfigured, or the client has left. All such requests share one key.',
      );
    }
    if (!isIP(ip)) {
      throw new ValidationError(
        'ERR_ERL_INVALID_IP_ADDRESS',
        `request.ip is not an IP address (${ip}). Consider passing a custom 'keyGenerator'.`,
      );
    }
  },

  trustProxy(request: Request) {
    if (request.app.get('trust proxy') === true) {
      throw new ValidationError(
        'ERR_ERL_PERMISSIVE_TRUST_PROXY',
        "The Express setting 'trust proxy' is true, so clients can choose their address and bypass the limit.",
      );
    }
  },

  xForwardedForHeader(request: Request) {
    if (request.headers['x-forwarded-for'] && request.app.get('trust proxy') === false) {
      throw new ValidationError(
        'ERR_ERL_UNEXPECTED_X_FORWARDED_FOR',
        "The 'X-Forwarded-For' header is set, but the Express setting 'trust proxy' is false (the default), so all clients " +
          'of a proxy count as one.',
      );
    }
  },

  forwardedHeader(request: Request) {
    if (request.headers.forwarded && request.ip === request.socket?.remoteAddress) {
      throw new ValidationError(
        'ERR_ERL_FORWARDED_HEADER',
        "The 'Forwarded' header is set, but Express ignores it. Use a custom 'keyGenerator' to read it.",
      );
    }
  },

  positiveHits(hits: unknown) {
    if (!Number.isInteger(hits) || (hits as number) < 1) {
      throw new ValidationError(
        'ERR_ERL_INVALID_HITS',
        `The totalHits that the store returned must be a positive integer, got ${String(hits)}.`,
      );
    }
  },

  unsharedStore(store: Store) {
    if (usedStores.has(store)) {
      const prefix = store.localKeys ? '' : ' (with a unique prefix)';
      throw new ValidationError(
        'ERR_ERL_STORE_REUSE',
        `A store must not be shared by several limiters. Create a ${store.constructor.name}${prefix} for each.`,
      );
    }
    usedStores.add(store);
  },

  singleCount(request: Request, store: Store, key: string) {
    const stores = countedKeys(request);
    const shared = store.localKeys ? store : store.constructor.name;
    const keys = stores.get(shared) ?? [];
    stores.set(shared, keys);
    const prefixed = `${store.prefix ?? ''}${key}`;
    if (keys.includes(prefixed)) {
      throw new ValidationError('ERR_ERL_DOUBLE_COUNT', `One request was counted for ${key} more than once.`);
    }
    keys.push(prefixed);
  },

  limit(limit: unknown) {
    if (limit === 0) {
      throw new ChangeWarning(
        'WRN_ERL_MAX_ZERO',
        'A limit of 0 denies all requests. Before version 7 of express-rate-limit, it turned limiting off.',
      );
    }
  },

  draftPolliHeaders(draft_polli_ratelimit_headers?: unknown) {
    if (draft_polli_ratelimit_headers) {
      throw new ChangeWarning(
        'WRN_ERL_DEPRECATED_DRAFT_POLLI_HEADERS',
        "The option draft_polli_ratelimit_headers was removed. Use standardHeaders: 'draft-6'.",
      );
    }
  },

  onLimitReached(onLimitReached?: unknown) {
    if (onLimitReached) {
      throw new ChangeWarning(
        'WRN_ERL_DEPRECATED_ON_LIMIT_REACHED',
        'The option onLimitReached was removed. Compare request.rateLimit.used with the limit in a handler.',
      );
    }
  },

  headersDraftVersion(version?: unknown) {
    if (!DRAFTS.includes(version as string)) {
      throw new ValidationError(
        'ERR_ERL_HEADERS_UNSUPPORTED_DRAFT_VERSION',
        `standardHeaders: pass true, false or one of ${DRAFTS.join(', ')}.`,
      );
    }
  },

  headersResetTime(resetTime?: Date) {
    if (!resetTime) {
      throw new ValidationError(
        'ERR_ERL_HEADERS_NO_RESET',
        'standardHeaders: the store returns no resetTime. The fields show a whole window instead, so clients may wait too long.',
      );
    }
  },

  knownOptions(options: object) {
    const unknown = Object.keys(options).find((option) => !KNOWN_OPTIONS.includes(option));
    if (unknown !== undefined) {
      throw new ValidationError('ERR_ERL_UNKNOWN_OPTION', `Unexpected configuration option: ${unknown}.`);
    }
  },

  /** Checks the names in `validate`. `this` is the result of {@link getValidations}. */
  validationsConfig(this: { enabled: Record<string, boolean> }) {
    const known = [...Object.keys(checks), 'default'];
    const unknown = Object.keys(this.enabled).find((name) => !known.includes(name));
    if (unknown !== undefined) {
      throw new ValidationError(
        'ERR_ERL_UNKNOWN_VALIDATION',
        `options.validate.${unknown} is unknown. The validations are: ${known.join(', ')}.`,
      );
    }
  },

  creationStack(store: Pick<Store, 'localKeys'>) {
    const { stack = '' } = new Error('the place where the limiter is created');
    if (stack.includes('Layer.handle [as handle_request]') || stack.includes('Layer.handleRequest')) {
      const usually = store.localKeys ? '' : '*usually* ';
      throw new ValidationError(
        'ERR_ERL_CREATED_IN_REQUEST_HANDLER',
        `A limiter should ${usually}be created when the app starts, not while it answers a request.`,
      );
    }
  },

  ipv6Subnet(ipv6Subnet?: unknown) {
    if (ipv6Subnet === false) return;
    if (!Number.isInteger(ipv6Subnet) || (ipv6Subnet as number) < 32 || (ipv6Subnet as number) > 64) {
      throw new ValidationError(
        'ERR_ERL_IPV6_SUBNET',
        `ipv6Subnet: ${String(ipv6Subnet)} is unusual. Use an integer from 32 to 64, usually 48 to 64.`,
      );
    }
  },

  ipv6SubnetOrKeyGenerator(options: Pick<Partial<Options>, 'ipv6Subnet' | 'keyGenerator'>) {
    if (options.ipv6Subnet !== undefined && options.keyGenerator) {
      throw new ValidationError(
        'ERR_ERL_IPV6SUBNET_OR_KEYGENERATOR',
        "The option 'ipv6Subnet' has no effect with a custom 'keyGenerator'.",
      );
    }
  },

  keyGeneratorIpFallback(keyGenerator?: unknown) {
    const source = typeof keyGenerator === 'function' ? String(keyGenerator) : '';
    if (/req(uest)?\.ip/.test(source) && !source.includes('ipKeyGenerator')) {
      throw new ValidationError(
        'ERR_ERL_KEY_GEN_IPV6',
        'A custom keyGenerator uses the address without ipKeyGenerator: IPv6 clients have many addresses.',
      );
    }
  },

  /** Checks nothing, because a wrong window is refused when the limiter is created, and windows can be long here. */
  windowMs(_windowMs?: unknown) {},
} satisfies Record<ValidationName, unknown>;

type Checks = typeof checks;

/** The validations of one limiter. Each runs once, and logs a problem. */
export type Validations = { [name in keyof Checks]: (...args: Parameters<Checks[name]>) => void } & {
  enabled: Record<string, boolean>;
  disable(): void;
};

/** Replaces a validation that has run. */
function ignore(): void {}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` if the logger lacks a method */
export function getValidations(option: boolean | EnabledValidations, logger: Logger): Validations {
  if (typeof logger?.error !== 'function' || typeof logger.warn !== 'function') {
    throw invalidOption('logger', logger, 'Pass an object with the methods error and warn.');
  }
  const enabled: Record<string, boolean> =
    typeof option === 'boolean' ? { default: option } : { default: true, ...option };
  const disable = (): void => {
    for (const name of Object.keys(enabled)) enabled[name] = false;
  };
  const validations: Record<string, unknown> = { enabled, disable };
  for (const [name, check] of Object.entries(checks) as [string, (...args: unknown[]) => void][]) {
    validations[name] = (...args: unknown[]) => {
      validations[name] = ignore;
      if (!(enabled[name] ?? enabled.default)) return;
      enabled[name] = false;
      try {
        check.apply(validations, args);
      } catch (error) {
        if (error instanceof ChangeWarning) logger.warn(error);
        else logger.error(error);
      }
    };
  }
  return validations as Validations;
}
