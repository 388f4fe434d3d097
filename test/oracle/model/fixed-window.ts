// One window, which starts at a key's first request.
import { Timed } from './timed.js';
import type { Policy } from './types.js';

export class FixedWindow extends Timed {
  private end = 0;

  protected endOf(now: number, { window }: Policy, isFirst: boolean): number {
    if (isFirst) this.end = now + window;
    return this.end;
  }
}
