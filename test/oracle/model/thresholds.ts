// Each fraction is reported once per key, policy and window. The window ends when the quota would be full again after the last report.
import type { Policy } from './types.js';

export interface Event {
  readonly limiter: string;
  readonly policy: string;
  readonly key: string;
  readonly threshold: number;
  readonly used: number;
  readonly limit: number;
  readonly resetAfterMs: number;
}

export class Marks {
  private until = 0;
  /** By fraction, the limit of the report. A raised limit reports again. */
  private readonly reported = new Map<number, number>();

  /** The fractions that a charge reaches. @param reset the time until the quota is full, after the charge */
  crossed(
    now: number,
    { used, before, whole, reset }: { used: number; before: number; whole: number; reset: number },
    { thresholds = [] }: Policy,
  ): number[] {
    if (now >= this.until) this.reported.clear();
    const due = [...thresholds]
      .sort((a, b) => a - b)
      .filter((fraction) => {
        const units = Math.ceil((Math.round(fraction * 1000) * whole) / 1000);
        const last = this.reported.get(fraction);
        // A raised limit reports again only when its own fraction is crossed.
        if (used < units || (last !== undefined && (last >= whole || before >= units))) return false;
        this.reported.set(fraction, whole);
        return true;
      });
    if (due.length > 0) this.until = now + reset;
    return due;
  }

  forget(): void {
    this.until = 0;
  }
}
