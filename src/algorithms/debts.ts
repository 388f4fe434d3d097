// The debts of buckets whose rate changes. `gcra.lua` has the same functions.
import { MAX_TICKS, type Rates, type Returned } from './algorithm.js';

/** All fields but `scale` are in ticks; a millisecond has `scale` ticks. */
export type GcraParams = {
  readonly scale: number;
  /** One unit. */
  readonly increment: number;
  /** `burst` units: the most that can be spent at once. */
  readonly capacity: number;
  /** The most that a request may be delayed (leaky bucket with maxDelay). */
  readonly patience: number;
  /** The largest backlog, so that a key never has to wait longer than one window. */
  readonly ceiling: number;
};

/** The params of a bucket whose rate changes now, or has changed lately. */
export type Changing = GcraParams & { readonly rates?: Rates };

/** A debt at its write: the time of the full payment, rounded up to a millisecond, and the ticks to subtract. */
interface Debt {
  readonly stop: number;
  readonly part: number;
}

/** The time and the rate of a debt's last write. */
export interface Written extends Pick<GcraParams, 'scale' | 'increment'> {
  readonly at: number;
  /** The debt beyond the ceiling, in ticks. */
  readonly cut: number;
}

const rateAt = ({ rates, ...p }: Changing, time: number): GcraParams =>
  rates ? (rates.at(time) as GcraParams) : p;
export const baseOf = ({ rates, ...p }: Changing): GcraParams => (rates ? (rates.base as GcraParams) : p);

/**
 * The rest of a debt, in ticks of the current rate. A debt drains by the rate of each time. At each change of the rate or of the ceiling, the
 * owed units stay the same: five of ten are five of a hundred.
 */
export function debtLeft(
  p: Changing,
  debt: Debt,
  written: Written,
  now: number,
): { backlog: number; cut: number } {
  let { cut } = written;
  let rate: Pick<GcraParams, 'scale' | 'increment'> = written;
  let { stop, part } = debt;
  const boundaries = p.rates ? p.rates.boundaries(written.at, now) : [];
  // The rate may have changed in the millisecond in which the debt was written.
  let { ceiling } = rateAt(p, written.at);
  if (written.at > 0 && (stop - written.at) * rate.scale - part > ceiling) ceiling = Infinity;
  for (const time of [written.at, ...boundaries, now]) {
    const next = time === now ? p : rateAt(p, time);
    const isSame = next.scale === rate.scale && next.increment === rate.increment && next.ceiling === ceiling;
    if (isSame) continue;
    const ticks = (stop - time) * rate.scale - part;
    if (ticks <= 0) return { backlog: 0, cut: 0 };
    const units = Math.floor((ticks + cut) / rate.increment);
    const rest = ticks + cut - units * rate.increment;
    const all = units * next.increment + Math.ceil((rest * next.increment) / rate.increment);
    // No request waits for the debt beyond the ceiling. A higher rate makes it count again.
    ({ ceiling } = next);
    const owed = Math.min(all, ceiling);
    cut = Math.min(all - owed, MAX_TICKS);
    const paidIn = Math.ceil(owed / next.scale);
    stop = time + paidIn;
    part = paidIn * next.scale - owed;
    rate = next;
  }
  const backlog = Math.max(0, (stop - now) * rate.scale - part);
  return { backlog, cut: backlog === 0 ? 0 : cut };
}

/** The most ticks that rounding a mark up to a millisecond can have added. */
export function roundingOf({ scale, increment }: GcraParams): number {
  return increment % scale === 0 ? 0 : scale - 1;
}

/** The time at which a debt is certainly paid. By the rate of a later entry, it may last longer. */
export function lastOf(p: Changing, now: number, stop: number): number {
  let last = stop;
  for (const time of p.rates!.boundaries(now, Infinity)) {
    const { ceiling, scale } = rateAt(p, time);
    if (time < last) last = Math.max(last, time + Math.ceil(ceiling / scale));
  }
  return last;
}

/** `patience` as the time for which the configured bucket may hold a request. */
export function patienceOf(p: Changing): number {
  const base = baseOf(p);
  return Math.min(Math.floor((base.patience * p.scale) / base.scale), p.ceiling - p.capacity);
}

/** The part of a charge that has certainly not drained yet, if the rate may have changed since. See `GcraColumn`. */
export function leftOfOld(p: Changing, charge: number, now: number, of: Returned): number {
  const shift = Math.ceil((of.shift * p.increment) / baseOf(p).increment);
  const isChanged = p.rates!.boundaries(of.at - 1, now).length > 0;
  // In the millisecond of a change, the rate of the charge is not known. Use the rate that returns least.
  const left = p.rates!.around(of.at).map((params) => {
    const rate = params as GcraParams;
    const owed = (charge / p.increment) * rate.increment;
    const time = Math.ceil(owed / rate.scale);
    const written = { ...rate, at: of.at, cut: 0 };
    // Marks are rounded up, and every change of the rate rounds up their conversion. Subtract the most that rounding can have added.
    const rounding = isChanged
      ? p.scale + Math.ceil((rate.scale * p.increment) / rate.increment)
      : roundingOf(p);
    const before = debtLeft(p, { stop: of.mark, part: 0 }, written, now);
    const alone = debtLeft(p, { stop: of.at + time, part: time * rate.scale - owed }, written, now);
    return Math.max(before.backlog + before.cut - rounding - shift, alone.backlog + alone.cut);
  });
  return Math.max(0, Math.min(charge, ...left));
}
