// Sub-windows, which start with a key's first request. The oldest counts whole, so a unit is free when the sub-window after the window ends.
import { Timed } from './timed.js';
import type { Policy } from './types.js';

export class SlidingWindow extends Timed {
  private origin = 0;

  protected endOf(now: number, { window, segments = 10 }: Policy, isFirst: boolean): number {
    if (isFirst) this.origin = now;
    const segment = window / segments;
    return this.origin + (Math.floor((now - this.origin) / segment) + 1) * segment + window;
  }
}
