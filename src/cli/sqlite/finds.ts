import { ofLimiter } from '../../limiter/decision.js';
import type { Limiter } from '../../limiter/limiter.js';
import { ofDimension, type Limits } from '../limits.js';
import { verdictFind, whose, type Find, type Wanted } from '../redis/finds.js';
import { kernelOf, policyNameOf } from '../redis/layouts.js';
import type { ScanOptions } from '../redis/scan.js';
import { inForce } from '../../contract/overrides.js';
import type { Limiters } from '../limiters.js';
import type { StateKey } from '../../stores/keys.js';
import type { StateSummary } from '../../stores/state/key-state.js';

/** A row of a file, read back. */
export interface Row extends StateSummary {
  /** Undefined: the key is too long, or not of ASCII, so that only a hash of it is written. */
  readonly whose: StateKey | undefined;
  readonly written: string;
}

/** A file, or what stands for it. */
interface Rows extends Pick<Limiters, 'liveLimiter'> {
  rows(): AsyncIterable<Row>;
}

/** Finds who is banned, limited or otherwise known in a file, in the order of the keys. */
export class FileFinder {
  readonly #state: Rows;
  readonly #wanted: Wanted;
  readonly #limiters = new Map<string, Limiter>();
  looked = 0;
  readonly isOfIndex = false;

  constructor(state: Rows, wanted: Wanted) {
    this.#state = state;
    this.#wanted = wanted;
  }

  /** Bans come first, as in Redis. */
  async *finds({ signal }: ScanOptions = {}): AsyncGenerator<Find> {
    const { banned, limited, admitted, states } = this.#wanted;
    const others = limited || admitted || states !== false;
    const rounds = [...(banned ? [this.#banned] : []), ...(others ? [this.#others] : [])];
    try {
      for (const find of rounds) {
        this.looked = 0;
        for await (const row of this.#state.rows()) {
          if (signal?.aborted) return;
          if (!this.#isWanted(row)) continue;
          this.looked++;
          yield* await find(row, Date.now());
        }
      }
    } finally {
      for (const limiter of this.#limiters.values()) await limiter.close();
    }
  }

  /** The record of overrides of all keys is nobody's. */
  #isWanted({ whose: its }: Row): boolean {
    const { name } = this.#wanted;
    return its?.scope !== '' && (name === undefined || its?.name === name);
  }

  readonly #banned = ({ whose: its, bannedUntil, written }: Row, now: number): Find[] => {
    if (bannedUntil <= now) return [];
    const until = new Date(bannedUntil).toISOString();
    const ban = { bannedForMs: bannedUntil - now, bannedUntil: until, by: null, reason: null };
    return [{ kind: 'banned', ...showWhose(its, written), ...ban }];
  };

  readonly #others = async (row: Row, now: number): Promise<Find[]> => {
    const { limits, limited, admitted, states } = this.#wanted;
    const { whose: read, policies, overrides, written } = row;
    const alive = [...policies].filter(([, until]) => until > now);
    const its = read && typeof read.name === 'string' ? limits.get(read.name) : undefined;
    if (its && read && typeof read.key === 'string' && !read.slot && alive.length > 0) {
      if (!limited && !admitted) return [];
      const decision = ofLimiter(
        await this.#limiterOf(read.name as string, its, read.by).peek({ [read.by]: read.key }),
      );
      const find = verdictFind(decision, inForce(overrides, now) !== undefined);
      if (!(find.kind === 'limited' ? limited : admitted)) return [];
      return [{ ...showWhose(read, written), ...find }];
    }
    if (states === false || (states !== true && its)) return [];
    return alive.map(([id, until]) => ({
      kind: 'state',
      ...showWhose(read, written),
      policy: policyNameOf(id),
      algorithm: kernelOf(id) ?? null,
      expiresInMs: until - now,
    }));
  };

  #limiterOf(name: string, limits: Limits, by: string): Limiter {
    const id = `${by} ${name}`;
    let limiter = this.#limiters.get(id);
    if (!limiter) this.#limiters.set(id, (limiter = this.#state.liveLimiter(name, ofDimension(limits, by))));
    return limiter;
  }
}

function showWhose(read: Row['whose'], written: string): Pick<Find, 'name' | 'key' | 'dimension' | 'within'> {
  if (read) return whose(read);
  const hash = { hash: /#([\w-]+)/.exec(written)?.[1] ?? '' };
  return { name: hash, key: hash };
}
