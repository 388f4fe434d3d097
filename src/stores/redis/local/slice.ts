import type { Ahead } from '../../../algorithms/index.js';
import type { CompiledPolicy } from '../../../contract/policy.js';
import { chargedOf, replyWith, type Reply } from '../../../contract/reply.js';
import type { ChargeChange, PolicySet, Subject } from '../../../contract/store.js';
import { addVerdict, remainingOf, resetOf } from '../../../contract/verdicts.js';
import type { SliceConnection } from './connections.js';

/** The store's clock counts whole ms, so a time of the store may end one millisecond earlier. */
const CLOCK_TICK_MS = 1;

function aheadOf({ traits }: CompiledPolicy): Ahead {
  return traits.slices!;
}

/** The time after a charge in which its units may be spent, ms, by the verdict of each policy. */
export function lifeOf({ policies }: PolicySet, resetMs: (i: number) => number): number {
  return Math.min(...policies.map((policy, i) => aheadOf(policy).endsIn(resetMs(i)))) - CLOCK_TICK_MS;
}

/** The units of a charge that expire with each ms. */
export function lostPerMs({ policies }: PolicySet): number {
  return Math.max(...policies.map((policy) => aheadOf(policy).lostPerMs));
}

interface SliceParts {
  readonly subject: Subject;
  readonly units: number;
  readonly reply: Reply;
  readonly asked: number;
  readonly received: number;
  /** The longest time for which the units may be kept, ms. */
  readonly hold: number;
  /** The connections through which the units may have been charged. */
  readonly connections?: readonly SliceConnection[];
}

/**
 * Units charged by the store, to be spent in this process. All times are by the clock of this process, and chosen so that the slice ends
 * too early rather than too late.
 */
export class Slice {
  readonly #subject: Subject;
  readonly #units: number;
  readonly #reply: Reply;
  readonly #asked: number;
  readonly #received: number;
  readonly #until: number;
  readonly #lostPerMs: number;
  readonly #connections: readonly SliceConnection[];
  #spent = 0;

  constructor({ subject, units, reply, asked, received, hold, connections = [] }: SliceParts) {
    const { set } = subject;
    this.#subject = subject;
    this.#units = units;
    this.#reply = reply;
    this.#asked = asked;
    this.#received = received;
    this.#until =
      asked +
      Math.min(
        hold,
        lifeOf(set, (i) => resetOf(reply.verdicts, i)),
      );
    this.#lostPerMs = lostPerMs(set);
    this.#connections = connections;
  }

  get units(): number {
    return this.#units;
  }

  /** Whether the server that answers now may not know the charge, so that the units may be neither spent nor returned. */
  get isLost(): boolean {
    for (const { isLost } of this.#connections) if (isLost) return true;
    return false;
  }

  left(now: number): number {
    if (now >= this.#until || this.isLost) return 0;
    const unspent = this.#units - this.#spent;
    if (this.#lostPerMs === 0) return unspent;
    return unspent - Math.ceil((now - this.#asked + CLOCK_TICK_MS) * this.#lostPerMs);
  }

  /** Whether a set of the same counts also has room for the units, because its limits may be lower. */
  fits(set: PolicySet): boolean {
    if (set === this.#subject.set) return true;
    return set.policies.every(({ traits }, i) => this.#used(i) <= traits.capacity);
  }

  /** The units that a policy had counted after the charge. */
  #used(i: number): number {
    const { capacity } = this.#subject.set.policies[i]!.traits;
    return capacity - remainingOf(this.#reply.verdicts, i);
  }

  /** An admission with a charge that expires together with the charge of the slice. */
  spend({ policies }: PolicySet, cost: number, now: number): Reply {
    this.#spent += cost;
    const { now: then, step, verdicts: charged } = this.#reply;
    const left = Math.max(0, this.left(now));
    const passed = Math.floor(now - this.#received);
    const verdicts: number[] = [];
    for (let i = 0; i < policies.length; i++) {
      const free = policies[i]!.traits.capacity - this.#used(i);
      addVerdict(verdicts, 0, Math.max(0, free) + left, Math.max(0, resetOf(charged, i) - passed));
    }
    return replyWith(verdicts, then + passed, step);
  }

  /**
   * The change that returns the unspent units, which can no longer be spent. Undefined if there are no unspent units, if all units have
   * expired, or if the slice's connection is lost.
   */
  rest(now: number): ChargeChange | undefined {
    const { set, key } = this.#subject;
    const left = this.#units - this.#spent;
    const spent = this.#spent;
    this.#spent = this.#units;
    const { verdicts } = this.#reply;
    const hasExpired = set.policies.every((_, i) => now - this.#received > resetOf(verdicts, i));
    if (left === 0 || hasExpired || this.isLost) return undefined;
    const charged = chargedOf(this.#reply);
    // Units that drain expire in order, and the spent units are the last: the unspent units end before.
    const marks = charged.marks.map((mark, i) => {
      const rate = aheadOf(set.policies[i]!).lostPerMs;
      return rate === 0 ? mark : mark - Math.ceil(spent / rate);
    });
    const units = set.policies.map(() => -left);
    return { set, key, units, charged: { ...charged, marks }, degraded: undefined };
  }
}
