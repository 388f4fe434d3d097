import { List, type Link } from '../../common/list.js';
import type { Costs } from '../../contract/costs.js';
import type { PolicySet } from '../../contract/store.js';
import { Pace } from './pace.js';
import { setOf, type Waiter, type WaitingLine } from './waiting-line.js';

// The states of a gate.
/** The store is not asked and no timer runs: the gate is new, or all of its waiters are held. */
export const RESTING = 'resting';
/** The store is being asked, as long as it admits. */
export const ASKING = 'asking';
/** A timer runs until the next question. */
export const SLEEPING = 'sleeping';

/** A waiter that a question is about, and its line. */
export interface Asker {
  readonly line: WaitingLine;
  readonly link: Link<Waiter>;
}

/**
 * The lines that wait for the same key, such as the lines of all tenants for the limit of all. They take turns by weighted deficit round
 * robin: in each round, a line may spend the cost of the largest request, times its weight. A line stands at one gate: at the gate of the
 * key that denied it, or before a denial at a gate of its own. Only the gate's first line asks the store.
 */
export class Gate {
  /** The key, or the joined keys of a gate that one line has for itself. */
  readonly key: string;
  /** The keys of a gate that one line with several keys has for itself. */
  readonly ids: readonly string[];
  readonly pace: Pace;
  state: typeof RESTING | typeof ASKING | typeof SLEEPING = RESTING;
  /** Whether units were given back during a question. The store is then asked again at once. */
  wasWoken = false;
  stopTimer = (): void => {};
  /** The lines with a waiter that has no place yet. */
  readonly newcomers = new Set<WaitingLine>();
  /** The number of lines, including those whose waiters are all held. */
  size = 0;
  /** The lines with a waiter that is not held, in the order of their turns. */
  readonly #round = new List<WaitingLine>();
  /** The units of a round for each unit of weight: the largest cost so far. */
  #quantum = 1;

  constructor(key: string, ids: readonly string[], isShared: boolean) {
    this.key = key;
    this.ids = ids;
    this.pace = new Pace(isShared);
  }

  /** The waiter that the next question is about. */
  get next(): Link<Waiter> | undefined {
    return this.#round.first?.value.next;
  }

  /** Adds a line, or a line's first waiter that is not held. */
  enter(line: WaitingLine): void {
    if (line.gate !== this) this.size++;
    line.gate = this;
    if (line.next && !line.spot) line.spot = this.#round.insert(line, this.#round.last);
  }

  /** Takes out a line. */
  leave(line: WaitingLine): void {
    this.pause(line);
    this.newcomers.delete(line);
    line.gate = undefined;
    this.size--;
  }

  /** Takes a line out of the round. */
  pause(line: WaitingLine): void {
    if (line.spot) this.#round.remove(line.spot);
    line.spot = undefined;
    line.credit = 0;
  }

  /** Notes a waiter of one of the lines. */
  note({ costs: { cost } }: Waiter): void {
    this.#quantum = Math.max(this.#quantum, cost);
  }

  /** Records an admission. The line's turn ends with its waiters, or with its part of the round. */
  spend(line: WaitingLine, cost: number): void {
    line.credit = this.#creditFor(line, line.credit, cost) - cost;
    if (!line.next) this.pause(line);
    else if (line.spot && line.next.value.costs.cost > line.credit && line.spot.after) {
      this.#round.remove(line.spot);
      line.spot = this.#round.insert(line, this.#round.last);
    }
  }

  /** The waiters that share one question to the store, by one set, and whether there are no others. */
  group(now: number): { set: PolicySet; group: Asker[]; isAll: boolean } {
    const set = setOf(this.next!.value, now);
    const group: Asker[] = [];
    let sum = 0;
    let largest = 0;
    let last: Costs['costs'];
    for (const asker of this.#inTurn()) {
      const { value } = asker.link;
      const { cost, costs } = value.costs;
      sum += cost;
      const isLess = costs ? costs.join() !== last?.join() : cost < largest;
      const isSafe = this.pace.hasUnits(sum, isLess);
      if (group.length > 0 && (!isSafe || setOf(value, now) !== set)) return { set, group, isAll: false };
      group.push(asker);
      largest = Math.max(largest, cost);
      last = costs;
    }
    return { set, group, isAll: true };
  }

  /** The waiters in the order of their turns, as if all were admitted. */
  *#inTurn(): Generator<Asker> {
    const visits: { line: WaitingLine; link: Link<Waiter>; credit: number }[] = [];
    let spot = this.#round.first;
    for (let at = 0; spot || at < visits.length;) {
      const line: WaitingLine = spot?.value ?? visits[at]!.line;
      let { link, credit } = spot ? { link: line.next, credit: line.credit } : visits[at++]!;
      spot = spot?.after;
      for (let isFirst = true; link; link = link.after, isFirst = false) {
        const { cost } = link.value.costs;
        if (isFirst) credit = this.#creditFor(line, credit, cost);
        else if (credit < cost) break;
        yield { line, link };
        credit -= cost;
      }
      if (link) visits.push({ line, link, credit });
    }
  }

  /** A line's credit before a cost, with the line's part of a new round if the rest of the last one does not suffice. */
  #creditFor({ weight }: WaitingLine, credit: number, cost: number): number {
    return credit < cost ? Math.max(cost, credit + weight * this.#quantum) : credit;
  }
}
