// Units that end at a time: one list for all algorithms except buckets.
import { endOfPeriod } from './calendar.js';
import { NEVER, type Algorithm, type Charge, type Count, type Look, type Policy } from './types.js';

interface Piece {
  readonly charge: Charge;
  units: number;
  end: number;
}

/** The end of units that are charged now. `first` is the time of the first of the units that count now. */
type EndOf = (now: number, policy: Policy, first: number) => number;

const atOnce: EndOf = (now, { window }) => now + window;

const ENDS: Readonly<Partial<Record<Algorithm, EndOf>>> = {
  // One window, which starts at a key's first request.
  'fixed-window': (_, { window }, first) => first + window,
  // Sub-windows, which start with a key's first request. The oldest counts whole, so a unit is free when the sub-window after the window ends.
  'sliding-window': (now, { window, segments = 10 }, first) => {
    const segment = window / segments;
    return first + (Math.floor((now - first) / segment) + 1) * segment + window;
  },
  // Each unit is free exactly one window later.
  'sliding-log': atOnce,
  calendar: (now, { period }) => endOfPeriod(now, period),
  // Slots are held until their release or the end of their lease.
  concurrency: atOnce,
};

export class Timed implements Count {
  private pieces: Piece[] = [];
  private first = 0;
  /** The policy of the first charge. Others with this count may have another limit. */
  protected readonly policy: Policy;
  constructor(policy: Policy) {
    this.policy = policy;
  }

  private alive(now: number): Piece[] {
    return this.pieces.filter(({ end, units }) => end > now && units > 0);
  }

  look(now: number, cost: number, { limit }: Policy): Look {
    const pieces = this.alive(now).sort((a, b) => a.end - b.end);
    let used = pieces.reduce((sum, { units }) => sum + units, 0);
    const remaining = Math.max(0, limit - used);
    const reset = pieces.length > 0 ? pieces.at(-1)!.end - now : 0;
    let wait = 0;
    if (cost > limit) wait = NEVER;
    else if (cost > 0)
      for (const { units, end } of pieces) {
        if (used + cost <= limit) break;
        used -= units;
        wait = end - now;
      }
    return { wait, remaining, reset, delay: 0 };
  }

  charge(now: number, units: number): Charge {
    const charge: Charge = { count: this, at: now, units };
    this.add(charge, now, units);
    return charge;
  }

  private add(charge: Charge, now: number, units: number): void {
    if (units === 0) return;
    this.pieces = this.alive(now);
    if (this.pieces.length === 0) this.first = now;
    const end = ENDS[this.policy.algorithm]!(now, this.policy, this.first);
    this.pieces.push({ charge, units, end });
  }

  // Slots are not units: only a release gives them back.
  settle(charge: Charge, now: number, units: number): number {
    if (this.policy.algorithm === 'concurrency') return 0;
    const more = units - charge.units;
    charge.units = units;
    if (more > 0) this.add(charge, now, more);
    else this.take(this.of(charge, now).reverse(), -more);
    return Math.max(0, more);
  }

  giveBack(now: number, units: number): void {
    if (this.policy.algorithm !== 'concurrency') this.take(this.alive(now), units);
  }

  private of(charge: Charge, now: number): Piece[] {
    return this.alive(now).filter((piece) => piece.charge === charge);
  }

  private take(pieces: readonly Piece[], units: number): void {
    for (const piece of pieces) {
      const taken = Math.min(piece.units, units);
      piece.units -= taken;
      units -= taken;
    }
  }

  release(charge: Charge, now: number): boolean {
    const held = this.of(charge, now);
    for (const piece of held) piece.units = 0;
    return held.length > 0;
  }

  renew(charge: Charge, now: number): boolean {
    const held = this.of(charge, now);
    for (const piece of held) piece.end = now + this.policy.window;
    return held.length > 0;
  }

  hold(charge: Charge, now: number): boolean {
    if (!this.renew(charge, now)) this.add(charge, now, charge.units);
    return true;
  }

  forget(): void {
    this.pieces = [];
  }
}
