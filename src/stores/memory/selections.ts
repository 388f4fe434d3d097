import type { CompiledPolicy } from '../../contract/policy.js';
import type { Warn } from '../../common/warnings.js';

/** The most policies whose state a table keeps, and the most selections of policies. */
const MAX_POLICIES = 1000;

export interface Selection {
  readonly number: number;
  readonly policies: readonly Numbered[];
  /** The longest time that a charge of the selection counts, ms. */
  readonly life: number;
  usedAt: number;
}

interface Numbered {
  readonly number: number;
  readonly policy: CompiledPolicy;
  /** The number of selections that contain the policy. */
  selections: number;
}

/** The numbers of the policies and selections whose state is forgotten. */
export interface Freed {
  readonly policies: readonly number[];
  readonly selections: readonly number[];
}

/**
 * Numbers a table's policies and selections. The numbers are bounded, because each policy costs time and memory for each key. Beyond the
 * bound, selections without state are dropped first, unused for their life, then the least recently used.
 */
export class Selections {
  readonly #policies = new Map<string, Numbered>();
  readonly #selections = new Map<string, Selection>();
  readonly #vacantPolicies: number[] = [];
  readonly #vacantSelections: number[] = [];
  readonly #warn: Warn;

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  get policies(): Iterable<Numbered> {
    return this.#policies.values();
  }

  get size(): number {
    return this.#policies.size;
  }

  /**
   * The selection of these policies.
   *
   * @param onFreed receives the policies and selections whose state must be forgotten
   */
  select(policies: readonly CompiledPolicy[], now: number, onFreed: (freed: Freed) => void): Selection {
    const id = idsText(policies);
    let selection = this.#selections.get(id);
    if (!selection) {
      selection = this.#add(policies, now);
      this.#selections.set(id, selection);
      if (this.#isFull) onFreed(this.#free(selection, now));
    }
    return selection;
  }

  get #isFull(): boolean {
    return this.#selections.size > MAX_POLICIES || this.#policies.size > MAX_POLICIES;
  }

  #add(policies: readonly CompiledPolicy[], now: number): Selection {
    return {
      number: this.#vacantSelections.pop() ?? this.#selections.size,
      policies: policies.map((policy) => this.#addPolicy(policy)),
      life: Math.max(0, ...policies.map(({ life }) => life)),
      usedAt: now,
    };
  }

  #addPolicy(policy: CompiledPolicy): Numbered {
    let known = this.#policies.get(policy.id);
    if (!known) {
      known = { number: this.#vacantPolicies.pop() ?? this.#policies.size, policy, selections: 0 };
      this.#policies.set(policy.id, known);
    }
    known.selections++;
    return known;
  }

  /** Makes room by dropping selections other than `kept`. */
  #free(kept: Selection, now: number): Freed {
    const freed = { policies: [] as number[], selections: [] as number[] };
    for (const selection of this.#selections.values())
      if (selection !== kept && selection.usedAt + selection.life <= now) this.#remove(selection, freed);
    while (this.#isFull) {
      warnTooMany(this.#warn);
      this.#remove(this.#oldest(kept), freed);
    }
    this.#vacantPolicies.push(...freed.policies);
    this.#vacantSelections.push(...freed.selections);
    return freed;
  }

  /** The least recently used selection, except for `but`. */
  #oldest(but: Selection): Selection {
    let oldest = but;
    for (const selection of this.#selections.values())
      if (selection !== but && (oldest === but || selection.usedAt < oldest.usedAt)) oldest = selection;
    return oldest;
  }

  #remove({ number, policies }: Selection, freed: { policies: number[]; selections: number[] }): void {
    this.#selections.delete(idsText(policies.map(({ policy }) => policy)));
    freed.selections.push(number);
    for (const known of policies) {
      if (--known.selections > 0) continue;
      this.#policies.delete(known.policy.id);
      freed.policies.push(known.number);
    }
  }
}

/** Joins the ids by line feeds, which they cannot contain, because names of policies are printable. */
function idsText(policies: readonly CompiledPolicy[]): string {
  return policies.map(({ id }) => id).join('\n');
}

function warnTooMany(warn: Warn): void {
  warn(
    'HEADGATE_TOO_MANY_POLICIES',
    `A memory store has dropped a policy's state, because it keeps at most ${MAX_POLICIES} policies per limiter name. Policies differ if ` +
      'their name, algorithm or window differs, buckets also if their rate or burst does. Distinguish clients by keys, not by policies.',
  );
}
