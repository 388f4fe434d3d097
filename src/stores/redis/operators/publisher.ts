import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { BestEffort } from './best-effort.js';
import type { Commands } from '../clients/commands.js';
import { clearTimeout, setTimeout } from '../../../common/real-time.js';
import type { Announcement } from '../../../contract/announcement.js';
import { CHANGES_LIFE_MS, configuredChange, MAX_CHANGES } from '../../journal.js';
import { configurationOf, instanceOf, type PublishedLimiter } from '../../published.js';
import { configurationKeys } from './ban-book.js';

const MAX_INSTANCES = 1000;

/** The delay of the first publication, ms, which keeps it out of the start of the process. */
const FIRST_PUBLICATION_MS = 1000;

/** An instance with as many missed publications, plus some time (ms), counts as gone. */
const MAX_MISSED_PUBLICATIONS = 3;
const GRACE_MS = 10_000;

/** The Redis keys of publications. Without a colon between the braces, they are never a limiter's. */
export function publishedKey(prefix: string, instance?: string): string {
  return `${prefix}:{limiters}${instance === undefined ? '' : `:${instance}`}`;
}

/** Publishes a store's limiters in Redis, by a timer that keeps no process alive, and never within a request. */
export class Publisher {
  readonly #aside: BestEffort;
  readonly #prefix: string;
  readonly #every: number;
  readonly #facts: { readonly hashed?: string; readonly counts?: false };
  readonly #instance = randomBytes(9).toString('base64url');
  readonly #limiters: ReadonlySet<Announcement>;
  readonly #changes: BestEffort;
  readonly #compared = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;

  /** @param limiters all limiters of the store @param every ms @param mark the mark of the secret that hashes the keys @param counts whether the store counts decisions */
  constructor(
    limiters: ReadonlySet<Announcement>,
    commands: Commands,
    {
      prefix,
      every,
      mark,
      counts,
    }: {
      readonly prefix: string;
      readonly every: number;
      readonly mark: string | undefined;
      readonly counts: boolean;
    },
  ) {
    this.#limiters = limiters;
    this.#facts = { ...(mark !== undefined && { hashed: mark }), ...(!counts && { counts }) };
    this.#aside = new BestEffort(commands, 'publish');
    this.#changes = new BestEffort(commands, 'configure');
    this.#prefix = prefix;
    this.#every = every;
  }

  begin(): void {
    this.#arm(Math.min(FIRST_PUBLICATION_MS, this.#every));
  }

  close(): void {
    clearTimeout(this.#timer);
    if (this.#timer) this.#send('');
    this.#timer = undefined;
  }

  #arm(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (!this.#aside.isPermitted) return;
      const document = { ...instanceOf(this.#limiters, hostname(), this.#every), ...this.#facts };
      this.#send(JSON.stringify(document));
      this.#logConfigurations(document.limiters);
      // A random factor keeps the processes of a deployment from publishing all at once.
      this.#arm(this.#every * (0.9 + 0.2 * Math.random()));
    }, ms).unref();
  }

  /** Logs limiters with other options than an earlier process published. Each configuration is compared once per process. */
  #logConfigurations(limiters: readonly PublishedLimiter[]): void {
    // A client that is still connecting would send nothing, and later publications would not compare again.
    if (!this.#changes.isReady) return;
    const names: string[] = [];
    const args: string[] = [];
    for (const { name, ...configuration } of limiters.map(configurationOf)) {
      const options = JSON.stringify(configuration);
      if (this.#compared.get(name) === options) continue;
      this.#compared.set(name, options);
      const entry = JSON.stringify(configuredChange(name, configuration));
      names.push(name);
      args.push(options, `${entry.slice(0, -1)},"before":`);
    }
    if (names.length === 0) return;
    const bounds = [MAX_CHANGES, CHANGES_LIFE_MS].map(String);
    this.#changes.send(configurationKeys(this.#prefix, names), [...bounds, ...args]);
  }

  #send(document: string): void {
    const keys = [publishedKey(this.#prefix), publishedKey(this.#prefix, this.#instance)];
    const life = this.#every * MAX_MISSED_PUBLICATIONS + GRACE_MS;
    this.#aside.send(keys, [this.#instance, document, String(life), String(MAX_INSTANCES)]);
  }
}
