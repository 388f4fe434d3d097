import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { CompiledBan } from '../../../algorithms/ban.js';
import { DEFAULT_DIMENSION } from '../../../contract/key.js';
import { canonicalText } from '../../../contract/policy-text.js';
import type { CompiledPolicy } from '../../../contract/policy.js';
import { VERSION } from '../../../common/version.js';
import { Aside } from './aside.js';
import type { Commands } from '../clients/commands.js';
import { clearTimeout, setTimeout } from '../../../common/real-time.js';
import type { Announcement } from '../../../contract/announcement.js';

/** One limiter as it is published. */
export interface PublishedLimiter {
  readonly name: string;
  /** The policies for requests without a tier, as text. */
  readonly policies: readonly string[];
  /** The policies of each tier. Absent if there are no tiers. */
  readonly tiers?: Readonly<Record<string, readonly string[]>>;
  /** `null` if the limiter never checks for bans. */
  readonly ban: CompiledBan | null;
  /** The dimension of bans. Absent for the default one. */
  readonly banBy?: string;
  /** The dimension of the slot that all keys share. Absent without `slotBy`. */
  readonly slotBy?: string;
  readonly shadow: boolean;
  /** Whether the policies depend on the request. `policies` then has those that were used recently. */
  readonly dynamic: boolean;
  /** Present if its limits can be overridden. */
  readonly overrides?: true;
  /** The prefix lengths that turn IPv6 addresses into keys. Empty if the program has its own keys. */
  readonly ipv6Subnets: readonly number[];
}

/** The limiters of one instance of the store, as published. */
export interface PublishedInstance {
  readonly version: string;
  readonly host: string;
  readonly pid: number;
  /** The time of the publication, by the instance's clock: ISO 8601. */
  readonly at: string;
  /** The time between two publications, ms. */
  readonly every: number;
  /** The mark of the secret that hashes the keys. Absent if keys are not hashed. */
  readonly hashed?: string;
  readonly limiters: readonly PublishedLimiter[];
  /** The count of limiters that were left out because there are too many. */
  readonly more: number;
}

/** Limits of the stored data: instances, limiters of each, policies of each, bytes. */
const MAX_INSTANCES = 1000;
const MAX_LIMITERS = 200;
const MAX_POLICIES = 100;
const MAX_BYTES = 64_000;

/** The delay of the first publication, ms, which keeps it out of the start of the process. */
const FIRST_PUBLICATION_MS = 1000;

/** An instance that missed this many publications, plus some time (ms), counts as gone. */
const MAX_MISSED_PUBLICATIONS = 3;
const GRACE_MS = 10_000;

/** The Redis keys of publications. Without a colon between the braces, they are never a limiter's. */
export function publishedKey(prefix: string, instance?: string): string {
  return `${prefix}:{limiters}${instance === undefined ? '' : `:${instance}`}`;
}

/** Publishes a store's limiters in Redis, by a timer that keeps no process alive, and never within a request. */
export class Publisher {
  readonly #aside: Aside;
  readonly #prefix: string;
  readonly #every: number;
  readonly #hashed: { readonly hashed?: string };
  readonly #instance = randomBytes(9).toString('base64url');
  readonly #limiters: ReadonlySet<Announcement>;
  #timer: NodeJS.Timeout | undefined;

  /** @param limiters all limiters of the store @param every ms @param mark the mark of the secret that hashes the keys */
  constructor(
    limiters: ReadonlySet<Announcement>,
    commands: Commands,
    prefix: string,
    every: number,
    mark: string | undefined,
  ) {
    this.#limiters = limiters;
    this.#hashed = mark === undefined ? {} : { hashed: mark };
    this.#aside = new Aside(commands, 'publish');
    this.#prefix = prefix;
    this.#every = every;
  }

  /** Publishes soon, after a limiter was added. */
  begin(): void {
    this.#arm(Math.min(FIRST_PUBLICATION_MS, this.#every));
  }

  /** Withdraws the publication. */
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
      // A random factor keeps the processes of a deployment from publishing all at once.
      this.#arm(this.#every * (0.9 + 0.2 * Math.random()));
    }, ms).unref();
  }

  #send(document: string): void {
    const keys = [publishedKey(this.#prefix), publishedKey(this.#prefix, this.#instance)];
    const life = this.#every * MAX_MISSED_PUBLICATIONS + GRACE_MS;
    this.#aside.send(keys, [this.#instance, document, String(life), String(MAX_INSTANCES)]);
  }

  #document(): PublishedInstance {
    const all = [...this.#limiters];
    const limiters: PublishedLimiter[] = [];
    let bytes = 0;
    for (const announced of all.slice(0, MAX_LIMITERS)) {
      const limiter = describe(announced);
      bytes += Buffer.byteLength(JSON.stringify(limiter));
      if (bytes > MAX_BYTES) break;
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
  const { name, ban, banBy, slotBy, shadow, dynamic, overrides, policies, tiers } = announcement;
  const by = {
    ...(ban && banBy !== DEFAULT_DIMENSION && { banBy }),
    ...(slotBy !== undefined && { slotBy }),
    ...(overrides && { overrides: true as const }),
  };
  const ipv6Subnets = [...announcement.ipv6Subnets].sort((a, b) => a - b);
  const published = {
    name,
    policies: textsOf(policies()),
    ban: ban ?? null,
    ...by,
    shadow,
    dynamic,
    ipv6Subnets,
  };
  const named = Object.fromEntries([...tiers].map(([tier, own]) => [tier, textsOf(own)]));
  return tiers.size > 0 ? { ...published, tiers: named } : published;
}

function textsOf(policies: readonly CompiledPolicy[]): string[] {
  return policies.slice(0, MAX_POLICIES).map((policy) => canonicalText(policy, policies.length === 1));
}
