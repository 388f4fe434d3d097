// Token bucket, leaky bucket and GCRA: charged units drain in turn, `limit` of them per window. Amounts are in units x window, so that
// `limit` of them drain per ms, and no number is rounded.
import { NEVER, type Charge, type Count, type Look, type Policy } from './types.js';

interface Piece {
  readonly charge: Charge;
  amount: number;
}

export class Bucket implements Count {
  private pieces: Piece[] = [];
  /** Units above what a lowered limit admits in a window. */
  private hidden: Piece[] = [];
  last = 0;
  /** The rate in force. An override that begins or ends calls `drain` first. */
  private rate = 0;
  /** The debt before the rate changed in this millisecond. A rate that is replaced in the same millisecond was never in force. */
  private unchanged: { pieces: Piece[]; hidden: Piece[]; rate: number } | undefined;

  /** Units of a charge that would have been too much debt. */
  private readonly uncharged = new Map<Charge, number>();
  /** Returns and other rates since the bucket was empty: each may round by 2 ms, never in the client's favour. */
  roundings = 0;
  /** The time since which the bucket is empty, or Infinity. */
  private empty = Infinity;

  /** Lets units drain until now, by the rate until now. From now on the policy's rate counts. */
  drain(now: number, policy: Policy): void {
    const rate = policy.limit;
    if (now > this.last) this.unchanged = undefined;
    let drained = Math.max(0, now - this.last) * this.rate;
    for (const piece of this.pieces) {
      const part = Math.min(piece.amount, drained);
      piece.amount -= part;
      drained -= part;
    }
    this.pieces = this.pieces.filter(({ amount }) => amount > 0);
    if (this.pieces.length === 0) this.hidden = [];
    if (rate !== this.rate) {
      this.roundings++;
      if (rate === this.unchanged?.rate) Object.assign(this, this.unchanged, { unchanged: undefined });
      else {
        const { pieces, hidden } = this.copy();
        this.unchanged ??= { pieces, hidden, rate: this.rate };
        this.limited(policy);
      }
    }
    // The real bucket is empty later by its roundings.
    if (this.pieces.length > 0) this.empty = Infinity;
    else if (this.empty === Infinity) this.empty = now;
    if (now > this.empty + this.lateBy(policy, 1)) this.roundings = 0;
    this.last = now;
    this.rate = rate;
  }

  /** The time by which rounded returns may make the real bucket later, ms. @param slack units that a return may lose */
  lateBy({ limit, window }: Policy, slack: number): number {
    return this.roundings * (2 + (slack * window) / limit);
  }

  /** Follows the real bucket within the rounding of returns. @param slack units that a return may lose */
  follow(now: number, reset: number, policy: Policy, slack: number): void {
    const level = this.level(now, policy);
    // The reset is rounded up.
    const more = reset > Math.ceil(level / policy.limit) ? reset * policy.limit - level : 0;
    const first = this.pieces[0];
    if (more <= 0 || more > this.lateBy(policy, slack) * policy.limit) return;
    if (first) first.amount += more;
    else this.pieces.push({ charge: { count: this, at: now, units: 0 }, amount: more });
  }

  /** Other limits: no more counts than admits a unit within a window. The rest counts again under the next limits, unless the bucket is full before. */
  private limited(policy: Policy): void {
    this.pieces.push(...this.hidden);
    let over = this.pieces.reduce((sum, { amount }) => sum + amount, 0) - mostOf(policy);
    this.hidden = [];
    for (const piece of [...this.pieces].reverse()) {
      const part = Math.max(0, Math.min(piece.amount, over));
      piece.amount -= part;
      over -= part;
      if (part > 0) this.hidden.unshift({ charge: piece.charge, amount: part });
    }
    this.pieces = this.pieces.filter(({ amount }) => amount > 0);
  }

  copy(): Bucket {
    const copy = new Bucket();
    copy.pieces = this.pieces.map((piece) => ({ ...piece }));
    copy.hidden = this.hidden.map((piece) => ({ ...piece }));
    copy.last = this.last;
    copy.rate = this.rate;
    copy.empty = this.empty;
    copy.roundings = this.roundings;
    return copy;
  }

  private level(now: number, policy: Policy): number {
    this.drain(now, policy);
    return this.pieces.reduce((sum, { amount }) => sum + amount, 0);
  }

  look(now: number, cost: number, policy: Policy): Look {
    const { limit, window, burst = limit, maxDelay = 0 } = policy;
    const level = this.level(now, policy);
    const remaining = Math.max(0, Math.floor((burst * window - level) / window));
    const reset = Math.ceil(level / limit);
    const turn = Math.max(0, Math.ceil((level + cost * window - burst * window) / limit));
    if (cost > burst) return { wait: NEVER, remaining, reset, delay: 0 };
    if (cost === 0) return { wait: 0, remaining, reset, delay: 0 };
    return turn <= maxDelay
      ? { wait: 0, remaining, reset, delay: turn }
      : { wait: turn - maxDelay, remaining, reset, delay: 0 };
  }

  charge(now: number, units: number, policy: Policy): Charge {
    this.drain(now, policy);
    this.unchanged = undefined;
    const charge: Charge = { count: this, at: now, units };
    if (units > 0) this.hidden = [];
    if (units > 0) this.pieces.push({ charge, amount: units * policy.window });
    return charge;
  }

  settle(charge: Charge, now: number, units: number, policy: Policy): number {
    const { window } = policy;
    this.drain(now, policy);
    this.unchanged = undefined;
    const more = units - charge.units;
    charge.units = units;
    if (more > 0) {
      // A debt leaves room for a unit within a window. Only whole units are charged.
      const room = mostOf(policy) - this.level(now, policy);
      const added = Math.max(0, Math.min(more, Math.floor(room / window)));
      this.uncharged.set(charge, (this.uncharged.get(charge) ?? 0) + more - added);
      this.pieces.push({ charge, amount: added * window });
      return added;
    }
    const spared = Math.min(-more, this.uncharged.get(charge) ?? 0);
    this.uncharged.set(charge, (this.uncharged.get(charge) ?? 0) - spared);
    if (more + spared < 0) this.roundings++;
    const own = [...this.pieces, ...this.hidden].filter((piece) => piece.charge === charge);
    this.take(own.reverse(), (-more - spared) * window);
    return 0;
  }

  giveBack(now: number, units: number, policy: Policy): void {
    this.drain(now, policy);
    this.unchanged = undefined;
    this.roundings++;
    this.take([...this.pieces, ...this.hidden], units * policy.window);
  }

  /** Takes units back. Hidden units count in the place of those that counted, as if the returned ones had never been charged. */
  private take(pieces: readonly Piece[], amount: number): void {
    let room = 0;
    for (const piece of pieces) {
      const taken = Math.min(piece.amount, amount);
      piece.amount -= taken;
      amount -= taken;
      if (this.pieces.includes(piece)) room += taken;
    }
    for (const piece of this.hidden) {
      const part = Math.min(piece.amount, room);
      piece.amount -= part;
      room -= part;
      this.pieces.push({ charge: piece.charge, amount: part });
    }
    this.pieces = this.pieces.filter((piece) => piece.amount > 0);
    this.hidden = this.hidden.filter((piece) => piece.amount > 0);
  }

  forget(): void {
    this.pieces = [];
    this.hidden = [];
    this.unchanged = undefined;
  }
}

/** The most that a bucket carries: it admits a unit within a window. */
const mostOf = ({ limit, window, burst = limit, maxDelay = 0 }: Policy) =>
  (window + maxDelay) * limit + (burst - 1) * window;
