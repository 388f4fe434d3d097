// Slots, held until their release or the end of their lease.
import { Timed } from './timed.js';
import type { Charge, Policy } from './types.js';

export class Concurrency extends Timed {
  private lease = 0;

  protected endOf(now: number, { window }: Policy): number {
    this.lease = window;
    return now + window;
  }

  // Slots are not units: only a release gives them back.
  override settle(): number {
    return 0;
  }
  override giveBack(): void {}

  release(charge: Charge, now: number): boolean {
    const held = this.alive(now).filter((piece) => piece.charge === charge);
    for (const piece of held) piece.units = 0;
    return held.length > 0;
  }

  renew(charge: Charge, now: number): boolean {
    const held = this.alive(now).filter((piece) => piece.charge === charge);
    for (const piece of held) piece.end = now + this.lease;
    return held.length > 0;
  }
}
