import { areNumbers, Column, type Saved } from './algorithm.js';

/** The time for which a process that does not ask again counts as waiting, ms. */
const ALIVE_MS = 2000;
/** The time by whose turns one process may be ahead of another, ms. It is shared by the waiting processes. */
const QUANTUM_MS = 600;
/** The most processes in a line. Further ones take slots in no order. */
const MAX_MEMBERS = 64;
/** The longest time between two turns that counts, ms, because a longer one was idle time. */
const MAX_GAP_MS = 1000;

type LineParams = {
  /** The number of the process. */
  readonly process: number;
  /** Whether the process has further waiting requests: 1 or 0. */
  readonly waits: number;
};

/** A process, the units that it has taken, the time of its last question, and whether it waits for more. */
type Member = [process: number, units: number, seen: number, waits: number];

interface State {
  /** The time of the last turn, ms. */
  last: number;
  /** 8 times the mean time between turns, ms. */
  gap: number;
  /** The processes that asked lately. The process that asks is the last. */
  members: Member[];
}

/**
 * The processes that wait for the slots of a concurrency policy. Only waiting requests use it, in addition to the policy. The units that a
 * process takes are counted, and a process that is ahead gives way to a waiting process that has taken fewer. `remaining` is the mean time
 * between turns times 64, plus the number of processes that come first; or 0 if no other process waits.
 */
class LineColumn extends Column<LineParams> {
  readonly #states: (State | undefined)[];

  constructor(rows: number) {
    super();
    this.#states = new Array<State | undefined>(rows + 1).fill(undefined);
  }

  /** The members that asked lately, with the given process last. */
  #read(row: number, process: number, now: number): State & { own: Member; isNew: boolean } {
    const { last = 0, gap = 0, members = [] } = this.#states[row] ?? {};
    const alive = members.filter(([, , seen]) => seen > now - ALIVE_MS && seen <= now);
    const known = alive.find(([id]) => id === process);
    const own: Member = known ? [...known] : [process, 0, now, 0];
    return { last, gap, own, isNew: !known, members: [...alive.filter(([id]) => id !== process), own] };
  }

  look(row: number, { process }: LineParams, cost: number, now: number, writable: boolean): void {
    const { own, isNew, ...state } = this.#read(row, process, now);
    const { low, count } = others(state, own);
    const slack =
      state.gap > 0 ? Math.max(1, Math.floor((QUANTUM_MS * 8) / (state.gap * (count + 1)))) : QUANTUM_MS;
    this.remaining = standing(state, own);
    this.reset = ALIVE_MS;
    this.wait = cost > 0 && count > 0 && own[1] - low >= slack * cost ? gapOf(state) : 0;
    if (!writable || row === 0 || (isNew && state.members.length > MAX_MEMBERS)) return;
    own[2] = now;
    own[3] = 1;
    this.#states[row] = state;
  }

  commit(row: number, { process, waits }: LineParams, cost: number, now: number): void {
    const { own, isNew, ...state } = this.#read(row, process, now);
    const passed = Math.max(0, Math.min(now - state.last, MAX_GAP_MS));
    if (state.last > 0)
      state.gap = state.gap === 0 ? 8 * passed : state.gap - Math.floor(state.gap / 8) + passed;
    state.last = now;
    own[1] += cost;
    own[3] = waits;
    this.remaining = standing(state, own);
    if (!isNew || state.members.length <= MAX_MEMBERS) this.#states[row] = state;
  }

  /** Changes nothing: a turn that was given back was still a turn. */
  adjust(): number {
    this.wait = this.remaining = 0;
    this.reset = ALIVE_MS;
    return 0;
  }

  until(row: number): number {
    const seen = this.#states[row]?.members.map(([, , at]) => at) ?? [];
    return seen.length === 0 ? 0 : Math.max(...seen) + ALIVE_MS;
  }

  clear(row: number): void {
    this.#states[row] = undefined;
  }

  save(row: number): Saved {
    const { last = 0, gap = 0, members = [] } = this.#states[row] ?? {};
    return [last, gap, ...members.flat()];
  }

  load(row: number, saved: Saved): void {
    if (!areNumbers(saved) || saved.length % 4 !== 2) return;
    const [last = 0, gap = 0, ...numbers] = saved;
    const members: Member[] = [];
    for (let i = 0; i < numbers.length; i += 4) members.push(numbers.slice(i, i + 4) as Member);
    this.#states[row] = { last, gap, members };
  }

  sibling(rows: number): LineColumn {
    return new LineColumn(rows);
  }

  take(from: LineColumn, theirs: number, ours: number): void {
    this.#states[ours] = from.#states[theirs];
  }
}

/** The waiting processes other than the last: the lowest count of units, their number, and the number of those that come first. */
function others({ members }: State, own: Member): { low: number; count: number; rank: number } {
  const waiting = members.filter((member) => member !== own && member[3] === 1);
  const low = Math.min(...waiting.map(([, units]) => units));
  // A process that did not wait has no credit for that time.
  if (waiting.length > 0 && own[3] === 0) own[1] = Math.max(own[1], low);
  const isFirst = ([id, units]: Member): boolean => units < own[1] || (units === own[1] && id < own[0]);
  return { low, count: waiting.length, rank: waiting.filter(isFirst).length };
}

function gapOf({ gap }: State): number {
  return Math.max(1, Math.floor(gap / 8));
}

function standing(state: State, own: Member): number {
  const { count, rank } = others(state, own);
  return count === 0 ? 0 : gapOf(state) * 64 + Math.min(rank, 63);
}

/** An algorithm without a name, which no user's policy can have. */
export const line = { createColumn: (rows: number): Column<LineParams> => new LineColumn(rows) };
