import { ofLimiter } from '../../limiter/decision.js';
import type { Limiter } from '../../limiter/limiter.js';
import { ofDimension, type Limits } from '../limits.js';
import { kernelOf, policyNameOf, verdictFind, whose, type Find, type Wanted } from '../redis/finds.js';
import { entryInForce } from '../../contract/overrides.js';
import type { Limiters } from '../limiters.js';
import type { State } from '../state.js';
import type { StateKey } from '../../stores/keys.js';
import type { StateSummary } from '../../stores/state/saved-state.js';

/** A parsed row of a file. */
export interface Row extends StateSummary {
  /** The key, or `undefined` if the limiter's name is not ASCII, because then only a hash of the whole is stored. */
  readonly whose: StateKey | undefined;
  readonly written: string;
}

/** Finds banned, limited and otherwise known keys in a file, in the order of the keys. */
export function fileFinder(
  rows: () => AsyncIterable<Row>,
  limiters: Limiters,
  wanted: Wanted,
): ReturnType<State['finder']> {
  const { name, limits, banned, limited, admitted, states } = wanted;
  const made = new Map<string, Limiter>();

  function limiterOf(scope: string, own: Limits, by: string): Limiter {
    const id = `${by} ${scope}`;
    let limiter = made.get(id);
    if (!limiter) made.set(id, (limiter = limiters.liveLimiter(scope, ofDimension(own, by))));
    return limiter;
  }

  function bansOf({ whose: its, bannedUntil, written }: Row, now: number): Find[] {
    if (bannedUntil <= now) return [];
    const until = new Date(bannedUntil).toISOString();
    const ban = { bannedForMs: bannedUntil - now, bannedUntil: until, by: null, reason: null };
    return [{ kind: 'banned', ...showWhose(its, written), ...ban }];
  }

  async function othersOf({ whose: its, policies, overrides, written }: Row, now: number): Promise<Find[]> {
    const alive = [...policies].filter(([, until]) => until > now);
    const own = its && typeof its.name === 'string' ? limits.get(its.name) : undefined;
    if (own && its && typeof its.key === 'string' && !its.slot && alive.length > 0) {
      if (!limited && !admitted) return [];
      const limiter = limiterOf(its.name as string, own, its.by);
      const decision = ofLimiter(await limiter.peek({ [its.by]: its.key }));
      const find = verdictFind(decision, entryInForce(overrides, now) !== undefined);
      if (!(find.kind === 'limited' ? limited : admitted)) return [];
      return [{ ...showWhose(its, written), ...find }];
    }
    if (states === false || (states !== true && own)) return [];
    return alive.map(([id, until]) => ({
      kind: 'state',
      ...showWhose(its, written),
      policy: policyNameOf(id),
      algorithm: kernelOf(id) ?? null,
      expiresInMs: until - now,
    }));
  }

  /** The record of overrides of all keys does not belong to a key. */
  const isWanted = ({ whose: its }: Row): boolean =>
    its?.scope !== '' && (name === undefined || its?.name === name);

  return {
    looked: 0,
    isOfIndex: false,

    /** Bans come first, as in Redis. */
    async *finds({ signal } = {}) {
      const others = limited || admitted || states !== false;
      try {
        for (const findsOf of [...(banned ? [bansOf] : []), ...(others ? [othersOf] : [])]) {
          this.looked = 0;
          for await (const row of rows()) {
            if (signal?.aborted) return;
            if (!isWanted(row)) continue;
            this.looked++;
            yield* await findsOf(row, Date.now());
          }
        }
      } finally {
        for (const limiter of made.values()) await limiter.close();
      }
    },
  };
}

function showWhose(read: Row['whose'], written: string): Pick<Find, 'name' | 'key' | 'dimension' | 'within'> {
  if (read) return whose(read);
  const hash = { hash: /#([\w-]+)/.exec(written)?.[1] ?? '' };
  return { name: hash, key: hash };
}
