import type { CompiledPolicy } from '../policy.js';

/** The most policies whose state a table keeps, and the most selections of them. */
export const MOST_POLICIES = 1000;

/** Policies that decide together, each with its number in the table. */
export interface Selection {
  readonly number: number;
  readonly policies: readonly Numbered[];
  /** How long what it charges counts at most, ms. */
  readonly life: number;
  usedAt: number;
}

interface Numbered {
  readonly number: number;
  readonly policy: CompiledPolicy;
}

/** The numbers of those that are no more. */
export interface Freed {
  readonly policies: readonly number[];
  readonly selections: readonly number[];
}

/** Of no policies: it needs no room. */
export const NONE: Selection = { number: 0, policies: [], life: 0, usedAt: 0 };

/**
 * Numbers the policies of a table, and their selections. There is a bound, as each policy costs each key time and memory. A selection
 * that was not used for its life has no state any more, and makes room.
 */
export class Selections {
  readonly #policies = new Map<string, Numbered>();
  readonly #selections = new Map<string, Selection>();
  readonly #vacantPolicies: number[] = [];
  readonly #vacantSelections: number[] = [];
  /** No selection makes room before. */
  #roomAt = Infinity;

  /** How many policies there are. */
  get size(): number {
    return this.#policies.size;
  }

  /** The earliest time at which there may be room. */
  get roomAt(): number {
    return this.#roomAt;
  }

  /** The selection of these policies; undefined if there is no room for it. */
  select(policies: readonly CompiledPolicy[], now: number): Selection | undefined {
    if (policies.length === 0) return NONE;
    const id = policies.map((policy) => policy.id).join('\n');
    const known = this.#selections.get(id);
    return known ?? (this.#hasRoom(policies) ? this.#add(id, policies, now) : undefined);
  }

  #hasRoom(policies: readonly CompiledPolicy[]): boolean {
    const added = policies.filter(({ id }) => !this.#policies.has(id)).length;
    return this.#selections.size < MOST_POLICIES && this.#policies.size + added <= MOST_POLICIES;
  }

  #add(id: string, policies: readonly CompiledPolicy[], now: number): Selection {
    const selection: Selection = {
      number: this.#vacantSelections.pop() ?? this.#selections.size + 1,
      policies: policies.map((policy) => this.#numbered(policy)),
      life: Math.max(...policies.map(({ life }) => life)),
      usedAt: now,
    };
    this.#selections.set(id, selection);
    this.#roomAt = Math.min(this.#roomAt, now + selection.life);
    return selection;
  }

  #numbered(policy: CompiledPolicy): Numbered {
    let known = this.#policies.get(policy.id);
    if (!known) {
      known = { number: this.#vacantPolicies.pop() ?? this.#policies.size, policy };
      this.#policies.set(policy.id, known);
    }
    return known;
  }

  /** Frees the selections that have no state any more, and the policies that no other selection has. */
  free(now: number): Freed {
    const freed = { policies: [] as number[], selections: [] as number[] };
    if (now < this.#roomAt) return freed;
    this.#roomAt = Infinity;
    const kept = new Set<number>();
    for (const [id, { number, policies, life, usedAt }] of this.#selections) {
      if (usedAt + life > now) {
        this.#roomAt = Math.min(this.#roomAt, usedAt + life);
        for (const policy of policies) kept.add(policy.number);
      } else {
        this.#selections.delete(id);
        freed.selections.push(number);
      }
    }
    for (const [id, { number }] of this.#policies) {
      if (kept.has(number)) continue;
      this.#policies.delete(id);
      freed.policies.push(number);
    }
    this.#vacantPolicies.push(...freed.policies);
    this.#vacantSelections.push(...freed.selections);
    return freed;
  }
}
