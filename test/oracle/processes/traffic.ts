// The random calls of one process at a site.
import type { DrawnLimiter } from '../draw.js';
import type { Asked, Call, Keys } from './record.js';
import type { ProcessSite } from './task.js';

const LIMITS = [1, 2, 3, 4, 6, 12];
const IDS = 40;

/** The calls in proportion to their number. */
const CALLS: readonly Call[] = [
  ...Array.from({ length: 24 }, () => 'consume' as const),
  ...(['peek', 'peek', 'peek', 'usage', 'giveBack', 'reset'] as const),
  ...(['settle', 'settle', 'refund', 'refund', 'cancel', 'release', 'release', 'release', 'renew'] as const),
  ...(['ban', 'unban', 'override', 'override', 'remove'] as const),
];

const OF_DECISION: ReadonlySet<Call> = new Set(['settle', 'refund', 'cancel', 'release', 'renew']);

export class Traffic {
  readonly #site: ProcessSite;
  readonly #random: () => number;
  /** The admitted requests, the latest last. */
  readonly #admitted: { readonly n: number; readonly asked: Asked }[] = [];

  constructor(site: ProcessSite, random: () => number) {
    this.#site = site;
    this.#random = random;
  }

  admitted(n: number, asked: Asked): void {
    this.#admitted.push({ n, asked });
    if (this.#admitted.length > 10) this.#admitted.shift();
  }

  #any<T>(values: readonly T[]): T {
    return values[Math.floor(this.#random() * values.length)]!;
  }

  next(): Asked | undefined {
    const call = this.#any(CALLS);
    if (OF_DECISION.has(call)) return this.#ofDecision(call);
    const limiter = Math.floor(this.#random() * this.#site.limiters.length);
    const drawn = this.#site.limiters[limiter]!;
    if (call === 'consume' || call === 'peek') return this.#request(call, limiter, drawn);
    const keys = this.#keys(drawn);
    const tier = this.#tier(drawn);
    switch (call) {
      case 'giveBack':
        if (!drawn.refunds || drawn.policies.some(({ share }) => share)) return undefined;
        return { call, limiter, keys, ...tier, units: this.#any([1, 2, 3]) };
      case 'usage':
        return { call, limiter, keys, ...tier };
      case 'reset':
        return this.#site.resets && this.#random() < 0.3 ? { call, limiter, keys } : undefined;
      case 'ban':
      case 'unban': {
        const by = drawn.ban?.by;
        if (by === undefined || keys[by] === undefined) return undefined;
        const ban = { limiter, keys: { [by]: keys[by] } };
        return call === 'unban' ? { call, ...ban } : { call, ...ban, ms: this.#any([50, 120, 300]) };
      }
      default:
        return drawn.overrides ? this.#change(call, limiter, drawn, keys) : undefined;
    }
  }

  #change(call: Call, limiter: number, { policies }: DrawnLimiter, keys: Keys): Asked | undefined {
    const policy = this.#any(policies.slice(0, -1));
    const isAll = this.#random() < 0.3;
    const key = keys[policy.by];
    if (!isAll && key === undefined) return undefined;
    const place = isAll ? {} : { keys: { [policy.by]: key! } };
    if (call === 'remove') return { call, limiter, ...place };
    const length = this.#random() < 0.5 ? { ms: this.#any([40, 150, 400]) } : {};
    return { call, limiter, ...place, policy: policy.name, limit: this.#any(LIMITS), ...length };
  }

  #ofDecision(call: Call): Asked | undefined {
    if (this.#admitted.length === 0) return undefined;
    const { n, asked } = this.#any(this.#admitted);
    const { limiter, id } = asked;
    const { refunds, policies } = this.#site.limiters[limiter]!;
    const isSlot = call === 'release' || call === 'renew';
    if (isSlot && policies.every(({ algorithm }) => algorithm !== 'concurrency')) return undefined;
    if (!isSlot && refunds) return undefined;
    // After a whole refund an id may be charged again.
    if (id !== undefined && call !== 'settle') return undefined;
    const units = id === undefined ? this.#any([0, 1, 2, 4]) : 1;
    return { call, limiter, of: n, ...(call === 'settle' ? { units } : {}) };
  }

  #request(call: Call, limiter: number, drawn: DrawnLimiter): Asked {
    const hasShare = drawn.policies.some(({ share }) => share);
    if (call === 'consume' && drawn.hasIds && this.#random() < 0.7) {
      // A repetition asks the same as the first request.
      const at = Math.floor(this.#random() * IDS);
      const key = 'abc'[at % 3]!;
      const keys = keysFor(drawn, { key, account: key, org: key, tenant: 'tuv'[at % 3]! });
      return { call, limiter, keys, cost: 1 + (at % 3), id: `${limiter} ${at}` };
    }
    const random = this.#random();
    const cost =
      random < 0.6
        ? {}
        : random < 0.8
          ? { cost: this.#any([0, 2, 3, 5]) }
          : { cost: Object.fromEntries(drawn.policies.map(({ name }) => [name, this.#any([0, 1, 2, 4])])) };
    const weight = hasShare && this.#random() < 0.3 ? { weight: this.#any([1, 3]) } : {};
    return { call, limiter, keys: this.#keys(drawn), ...this.#tier(drawn), ...cost, ...weight };
  }

  #tier({ tiers }: DrawnLimiter): { tier?: string } {
    const tier = this.#any([undefined, ...Object.keys(tiers)]);
    return tier === undefined ? {} : { tier };
  }

  #keys(drawn: DrawnLimiter): Keys {
    const lacks = () => this.#random() < 0.1;
    return keysFor(drawn, {
      key: this.#any(['a', 'b', 'c']),
      ...(lacks() ? {} : { account: this.#any(['a', 'x']) }),
      ...(lacks() ? {} : { org: this.#any(['o', 'a']) }),
      ...(lacks() ? {} : { tenant: this.#any(['t', 'u', 'v']) }),
    });
  }
}

/** The keys of the dimensions that a limiter has. */
function keysFor({ policies }: DrawnLimiter, keys: Keys): Keys {
  const names = new Set(policies.flatMap(({ by, share }) => [by, ...(share ? [share] : [])]));
  return Object.fromEntries(Object.entries(keys).filter(([name]) => names.has(name)));
}
