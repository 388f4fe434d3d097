// Units that end at a time: the base of all algorithms except buckets.
import { NEVER, type Charge, type Count, type Look, type Policy } from './types.js';

interface Piece {
  readonly charge: Charge;
  units: number;
  end: number;
}

export abstract class Timed implements Count {
  protected pieces: Piece[] = [];

  /** The end of units that are charged now. `isFirst`: nothing else is charged. */
  protected abstract endOf(now: number, policy: Policy, isFirst: boolean): number;

  protected alive(now: number): Piece[] {
    return this.pieces.filter(({ end, units }) => end > now && units > 0);
  }

  used(now: number): number {
    return this.alive(now).reduce((sum, { units }) => sum + units, 0);
  }

  look(now: number, cost: number, { limit }: Policy): Look {
    const pieces = this.alive(now).sort((a, b) => a.end - b.end);
    let used = this.used(now);
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

  charge(now: number, units: number, policy: Policy, count: Count = this): Charge {
    const charge: Charge = { count, at: now, units };
    this.add(charge, now, units, policy);
    return charge;
  }

  private add(charge: Charge, now: number, units: number, policy: Policy): void {
    if (units === 0) return;
    this.pieces = this.alive(now);
    const end = this.endOf(now, policy, this.pieces.length === 0);
    this.pieces.push({ charge, units, end });
  }

  settle(charge: Charge, now: number, units: number, policy: Policy): number {
    const more = units - charge.units;
    charge.units = units;
    if (more > 0) this.add(charge, now, more, policy);
    else
      this.take(
        this.alive(now)
          .filter((piece) => piece.charge === charge)
          .reverse(),
        -more,
      );
    return Math.max(0, more);
  }

  giveBack(now: number, units: number): void {
    this.take(this.alive(now), units);
  }

  private take(pieces: readonly Piece[], units: number): void {
    for (const piece of pieces) {
      const taken = Math.min(piece.units, units);
      piece.units -= taken;
      units -= taken;
    }
  }

  forget(): void {
    this.pieces = [];
  }
}
