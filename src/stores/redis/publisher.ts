import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { CompiledBan } from '../../algorithms/ban.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { canonicalText } from '../../contract/policy-text.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { VERSION } from '../../common/version.js';
import { Aside } from './aside.js';
import type { Commands } from './clients/commands.js';
import { clearTimeout, setTimeout } from '../../common/real-time.js';
import type { Announcement } from '../../contract/store.js';

/** What one limiter tells of itself. */
export interface PublishedLimiter {
  readonly name: string;
  /** As text. Those of requests without a tier. */
  readonly policies: readonly string[];
  /** Those of each tier; absent if there are no tiers. */
  readonly tiers?: Readonly<Record<string, readonly string[]>>;
  /** `null`: it never asks for bans. */
  readonly ban: CompiledBan | null;
  /** The dimension whose keys are banned; absent: the default one. */
  readonly banBy?: string;
  /** The dimension within which all others are counted; absent: none. */
  readonly slotBy?: string;
  readonly shadow: boolean;
  /** Its policies are a function of the request: these are those that were used lately. */
  readonly dynamic: boolean;
  /** By which prefix lengths IPv6 addresses are its keys; none: its program makes its keys. */
  readonly ipv6Subnets: readonly number[];
}

/** What one instance of the store tells of its limiters. */
export interface PublishedInstance {
  readonly version: string;
  readonly host: string;
  readonly pid: number;
  /** When it told this, by its own clock: ISO 8601. */
  readonly at: string;
  /** How often it tells it, ms. */
  readonly every: number;
  /** Its keys are hashed with the secret of this mark; absent: they stand in clear. */
  readonly hashed?: string;
  readonly limiters: readonly PublishedLimiter[];
  /** How many limiters are left out, as they are too many. */
  readonly more: number;
}

/** Bounds of what is stored: instances, limiters of each, policies of each, bytes. */
const MOST_INSTANCES = 1000;
const MOST_LIMITERS = 200;
const MOST_POLICIES = 100;
const MOST_BYTES = 64_000;

/** The first time comes soon, but not while the process starts: ms. */
const SOON = 1000;

/** Who has not told anything for so many times, and for a while (ms), is gone. */
const MISSES = 3;
const GRACE = 10_000;

/** Their keys: no limiter's, as there is no colon between the braces. */
export function publishedKey(prefix: string, instance?: string): string {
  return `${prefix}:{limiters}${instance === undefined ? '' : `:${instance}`}`;
}

/** Tells Redis which limiters a store has: now and then, by a timer that keeps no process alive, never for a request. */
export class Publisher {
  readonly #aside: Aside;
  readonly #prefix: string;
  readonly #every: number;
  readonly #hashed: { readonly hashed?: string };
  readonly #instance = randomBytes(9).toString('base64url');
  readonly #limiters = new Set<Announcement>();
  #timer: NodeJS.Timeout | undefined;

  /** @param every ms @param mark that of the secret by which keys are hashed */
  constructor(commands: Commands, prefix: string, every: number, mark: string | undefined) {
    this.#hashed = mark === undefined ? {} : { hashed: mark };
    this.#aside = new Aside(commands, 'publish');
    this.#prefix = prefix;
    this.#every = every;
  }

  /** @returns what takes it back */
  add(limiter: Announcement): () => void {
    this.#limiters.add(limiter);
    this.#arm(Math.min(SOON, this.#every));
    return () => {
      this.#limiters.delete(limiter);
      if (this.#limiters.size === 0) this.close();
    };
  }

  /** Takes back what was told. */
  close(): void {
    clearTimeout(this.#timer);
    if (this.#timer) this.#send('');
    this.#timer = undefined;
  }

  #arm(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (!this.#aside.isPermitted) return;
      this.#send(JSON.stringify(this.#document()));
      // Not all processes of a deployment at the same moment.
      this.#arm(this.#every * (0.9 + 0.2 * Math.random()));
    }, ms).unref();
  }

  #send(document: string): void {
    const keys = [publishedKey(this.#prefix), publishedKey(this.#prefix, this.#instance)];
    const life = this.#every * MISSES + GRACE;
    this.#aside.send(keys, [this.#instance, document, String(life), String(MOST_INSTANCES)]);
  }

  #document(): PublishedInstance {
    const all = [...this.#limiters];
    const limiters: PublishedLimiter[] = [];
    let bytes = 0;
    for (const announced of all.slice(0, MOST_LIMITERS)) {
      const limiter = describe(announced);
      bytes += Buffer.byteLength(JSON.stringify(limiter));
      if (bytes > MOST_BYTES) break;
      limiters.push(limiter);
    }
    return {
      version: VERSION,
      host: hostname(),
      pid: process.pid,
      at: new Date().toISOString(),
      every: this.#every,
      ...this.#hashed,
      limiters,
      more: all.length - limiters.length,
    };
  }
}

function describe(announcement: Announcement): PublishedLimiter {
  const { name, ban, banBy, slotBy, shadow, dynamic, policies, tiers } = announcement;
  const by = {
    ...(ban && banBy !== DEFAULT_DIMENSION && { banBy }),
    ...(slotBy !== undefined && { slotBy }),
  };
  const ipv6Subnets = [...announcement.ipv6Subnets].sort((a, b) => a - b);
  const told = { name, policies: textsOf(policies()), ban: ban ?? null, ...by, shadow, dynamic, ipv6Subnets };
  const named = Object.fromEntries([...tiers].map(([tier, own]) => [tier, textsOf(own)]));
  return tiers.size > 0 ? { ...told, tiers: named } : told;
}

function textsOf(policies: readonly CompiledPolicy[]): string[] {
  return policies.slice(0, MOST_POLICIES).map((policy) => canonicalText(policy, policies.length === 1));
}
