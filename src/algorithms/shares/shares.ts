import {
  areNumbers,
  MemoryColumn,
  type Adjustment,
  type AlgorithmDefinition,
  type Saved,
} from '../algorithm.js';
import { FIELD_TABLE } from '../fields.js';
import type { SharesParams, SharesState } from './sharing.js';
import { slidingWindow } from '../sliding-window.js';

/** Keeps the states of pools, or of tenants. `features/shares/place-shares.ts` decides by both. */
export class SharesColumn extends MemoryColumn<SharesParams> {
  readonly #states: (SharesState | undefined)[];
  readonly #p: SharesParams;

  constructor(rows: number, p: SharesParams) {
    super();
    this.#p = p;
    this.#states = new Array<SharesState | undefined>(rows + 1).fill(undefined);
  }

  /** The state of a row, or undefined if it has expired. */
  state(row: number, now: number): SharesState | undefined {
    return this.until(row) > now ? this.#states[row] : undefined;
  }

  write(row: number, state: SharesState): void {
    this.#states[row] = state;
  }

  look(row: number, p: SharesParams, _cost: number, now: number): void {
    this.wait = 0;
    this.remaining = p.limit;
    this.reset = Math.max(0, this.until(row) - now);
  }

  commit(): void {}

  adjust(row: number, p: SharesParams, { units, now }: Adjustment): number {
    this.look(row, p, 0, now);
    return Math.max(0, units);
  }

  until(row: number): number {
    const state = this.#states[row];
    return state ? state.start + this.#p.segments * this.#p.segment : 0;
  }

  clear(row: number): void {
    this.#states[row] = undefined;
  }

  sibling(rows: number): SharesColumn {
    return new SharesColumn(rows, this.#p);
  }

  take(from: SharesColumn, theirs: number, ours: number): void {
    this.#states[ours] = from.#states[theirs];
  }

  save(row: number): Saved {
    const state = this.#states[row];
    if (!state) return [];
    const { start, born, mark, weight, light, squares, used, asked } = state;
    return [start, born, mark, weight, ...light, ...squares, ...used, ...asked];
  }

  load(row: number, saved: Saved): void {
    const { segments } = this.#p;
    if (saved.length !== 4 + 4 * segments || !areNumbers(saved)) return;
    const [start, born, mark, weight, ...rings] = saved as readonly [number, number, number, number];
    const ring = (i: number): number[] => (rings as number[]).slice(i * segments, (i + 1) * segments);
    const [light, squares, used, asked] = [ring(0), ring(1), ring(2), ring(3)];
    this.#states[row] = { start, born, mark, weight, light, squares, used, asked };
  }
}

/** The algorithm of the hidden policies of a shared policy. No policy names it. */
export const shares: AlgorithmDefinition<SharesParams> = {
  tag: 'f1',
  names: {},
  luaParams: { limit: 5, segment: 5, segments: 1, weight: 2 },
  compile(what, given) {
    const { params, ...compiled } = slidingWindow.compile(what, given);
    const { limit, segment, segments } = params;
    const weight = FIELD_TABLE.weight.read(`${what}.weight`, given['weight']);
    const traits = { ...compiled.traits, slices: undefined, nextUnitMs: undefined };
    return { ...compiled, params: { limit, segment, segments: segments + 1, weight }, traits };
  },
  createColumn: (rows, p) => new SharesColumn(rows, p),
};
