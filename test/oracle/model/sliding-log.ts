// Each unit is free exactly one window later.
import { Timed } from './timed.js';
import type { Policy } from './types.js';

export class SlidingLog extends Timed {
  protected endOf(now: number, { window }: Policy): number {
    return now + window;
  }
}
