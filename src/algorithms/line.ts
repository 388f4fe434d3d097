import { areNumbers, MemoryColumn, type Saved } from './algorithm.js';

/** The time for which a process that does not ask again counts as waiting, ms. */
const ALIVE_MS = 2000;
/** The most processes in a line. Further ones take slots in no order. */
const MAX_MEMBERS = 64;

/** The factor of the turns in `remaining`, above {@link MAX_MEMBERS}. */
export const PLACES = 256;
/** The most turns in `remaining`. */
const MAX_TURNS = 1000;

type LineParams = {
  readonly process: number;
  /** Whether the process has further waiting requests: 1 or 0. */
  readonly waits: number;
  /** The turns of all processes in a round. A process may be ahead by its part of a round. */
  readonly round: number;
};

/** A process, the units taken by the process, the time of its last question, and whether the process waits for more units. */
type Member = [process: number, units: number, seen: number, waits: number];

/**
 * The processes that wait for the slots of a concurrency policy. Waiting requests use the line in addition to the policy. The units taken
 * by a process are counted, and a process that is ahead gives way to a waiting process with fewer units. `remaining` is 0 if no further
 * process asked lately. Otherwise `remaining` is 1, plus the number of processes that come first, plus 256 per turn of the rest before one
 * of the first gives way.
 */
class LineColumn extends MemoryColumn<LineParams> {
  /** For each row, the processes that asked lately. */
  readonly #lines: (readonly Member[] | undefined)[];
  #line: Member[] = [];

  constructor(rows: number) {
    super();
    this.#lines = new Array<readonly Member[] | undefined>(rows + 1).fill(undefined);
  }

  look(row: number, p: LineParams, cost: number, now: number): void {
    const line = (this.#line = this.#read(row, p.process, now));
    const { place, count, lead, part } = placeOf(line, p.round);
    // Processes that do not ask again are forgotten after this time.
    this.wait = cost > 0 && count > 0 && lead >= cost * part ? ALIVE_MS : 0;
    this.remaining = place;
    this.reset = ALIVE_MS;
    this.isStale = true;
  }

  /** Notes that the process waits. */
  override refresh(row: number, _p: LineParams, now: number): void {
    this.#write(row, this.#line, now, 1);
  }

  commit(row: number, p: LineParams, cost: number, now: number): void {
    const line = this.#read(row, p.process, now);
    line.at(-1)![1] += cost;
    this.remaining = placeOf(line, p.round).place;
    this.#write(row, line, now, p.waits);
  }

  /** Changes nothing: a turn that was given back was still a turn. */
  adjust(): number {
    this.wait = this.remaining = 0;
    this.reset = ALIVE_MS;
    return 0;
  }

  until(row: number): number {
    const line = this.#lines[row];
    return line ? Math.max(...line.map(([, , seen]) => seen)) + ALIVE_MS : 0;
  }

  clear(row: number): void {
    this.#lines[row] = undefined;
  }

  save(row: number): Saved {
    return this.#lines[row]?.flat() ?? [];
  }

  load(row: number, saved: Saved): void {
    if (!areNumbers(saved) || saved.length === 0 || saved.length % 4 !== 0) return;
    const line: Member[] = [];
    for (let i = 0; i < saved.length; i += 4) line.push(saved.slice(i, i + 4) as Member);
    this.#lines[row] = line;
  }

  sibling(rows: number): LineColumn {
    return new LineColumn(rows);
  }

  take(from: LineColumn, theirs: number, ours: number): void {
    this.#lines[ours] = from.#lines[theirs];
  }

  /** The processes with a recent question, with the given process last. */
  #read(row: number, process: number, now: number): Member[] {
    const alive = (this.#lines[row] ?? []).filter(([, , seen]) => seen > now - ALIVE_MS && seen <= now);
    const own: Member = [...(alive.find(([id]) => id === process) ?? ([process, 0, now, 0] as const))];
    return [...alive.filter(([id]) => id !== process), own];
  }

  #write(row: number, line: Member[], now: number, waits: number): void {
    const own = line.at(-1)!;
    const isNew = !this.#lines[row]?.some(([id]) => id === own[0]);
    if (row === 0 || (isNew && line.length > MAX_MEMBERS)) return;
    own[2] = now;
    own[3] = waits;
    this.#lines[row] = line;
  }
}

/** The place of the last process of a line: see {@link LineColumn}; the number of further waiting processes; the lead; the part of a round. */
function placeOf(
  line: readonly Member[],
  round: number,
): { place: number; count: number; lead: number; part: number } {
  const own = line.at(-1)!;
  const others = line.filter((member) => member !== own && member[3] === 1);
  const count = others.length;
  const part = Math.max(1, Math.floor(round / (count + 1)));
  if (count === 0) return { place: line.length > 1 ? 1 : 0, count, lead: 0, part };
  const low = Math.min(...others.map(([, units]) => units));
  const high = Math.max(...others.map(([, units]) => units));
  // A process that did not wait has little credit for that time.
  if (own[3] === 0) own[1] = Math.max(own[1], low - part);
  const first = others.filter(([id, units]) => units < own[1] || (units === own[1] && id < own[0]));
  // A process that does not wait leaves slots to waiting processes.
  const turns = count < line.length - 1 ? 0 : Math.min(Math.max(part - 1 - high + own[1], 0), MAX_TURNS);
  return { place: 1 + first.length + turns * PLACES, count, lead: own[1] - low, part };
}

/** An algorithm without a name, which no user's policy can have. */
export const line = {
  luaParams: { process: 6, waits: 1, round: 6 },
  createColumn: (rows: number): MemoryColumn<LineParams> => new LineColumn(rows),
};
