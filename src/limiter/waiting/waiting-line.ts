import { List, type Link } from '../../common/list.js';
import type { Costs } from '../../contract/costs.js';
import type { PolicySet } from '../../contract/store.js';
import { WaitingQueue } from './waiting-queues.js';
import { AskSchedule } from './ask-schedule.js';
import { DONE, QUEUED, setOf, type Waiter } from './waiter.js';

/**
 * The waiters of a tenant, with the same key, or the same keys of several dimensions: first the held waiters, then the rest by priority and
 * in order of arrival.
 */
export class WaitingLine extends WaitingQueue<Waiter> {
  ids: readonly string[] = [this.key];
  weight = 1;
  askedAt = 0;
  /** The place where the line waits for its turn. Undefined before the line's first waiter. */
  gate: Gate | undefined;
  /** The line's place in the round of its gate, as long as the line has a waiter that is not held. */
  spot: Link<WaitingLine> | undefined;
  /** The units left to the line in the current round. */
  credit = 0;
  /** The first waiter that is not held. Questions to the store are about this waiter and the waiters behind it. */
  next: Link<Waiter> | undefined;
  /** The first waiter without a place. The waiters behind it have no place either. */
  newcomer: Link<Waiter> | undefined;

  /** The waiter behind which a newcomer waits. The newcomer passes no waiter that is held or asked about. */
  lastBefore(priority: number): Link<Waiter> | undefined {
    let link = this.last;
    while (link && link.value.request.priority < priority && link.value.state === QUEUED) link = link.before;
    return link;
  }

  join(waiter: Waiter, before: Link<Waiter> | undefined): Link<Waiter> {
    const after = before ? before.after : this.first;
    const link = this.insert(waiter, before);
    if (this.next === after) this.next = link;
    if (!waiter.hasPlace && this.newcomer === after) this.newcomer = link;
    return link;
  }

  leave(link: Link<Waiter>): void {
    if (this.next === link) this.next = link.after;
    if (this.newcomer === link) this.newcomer = link.after;
    this.remove(link);
    if (!this.next) this.gate?.pause(this);
    this.gate?.pace.resetPoll();
    link.value.state = DONE;
    link.value.stop();
  }

  /** The last bounded waiter with a place. There must be such a waiter. */
  lastBounded(): Link<Waiter> {
    let link = this.newcomer ? this.newcomer.before! : this.last!;
    while (link.value.request.isUnbounded || !link.value.hasPlace) link = link.before!;
    return link;
  }
}

// The states of a gate.
/** The store is not asked and no timer runs: the gate is new, or all of its waiters are held. */
export const RESTING = 'resting';
/** The store is being asked, as long as it admits. */
export const ASKING = 'asking';
/** A timer runs until the next question. */
export const SLEEPING = 'sleeping';

/** The time after which each tenant that waits for shared slots asks again, ms. The store forgets its demand after twice this time. */
const KEPT_MS = 1000;
/** The most further tenants in a question, as many as the store remembers. */
const MOST_KEPT = 64;
/** The time between two questions about all tenants, ms for each of them. */
const AROUND_MS = 1;

/** A waiter in a question, and the waiter's line. */
export interface Watcher {
  readonly line: WaitingLine;
  readonly link: Link<Waiter>;
}

/**
 * The lines that wait for the same key, such as the lines of all tenants for the limit of all. The lines take turns by weighted deficit
 * round robin: in each round, a line may spend the cost of the largest request, times the line's weight. A line stands at one gate: at the
 * gate of the key that denied it, or before a denial at a separate gate. Only the gate's first line asks the store.
 */
export class Gate {
  /** The key, or the joined keys at a separate gate of a single line. */
  readonly key: string;
  /** The keys at a separate gate of a line with several keys. */
  readonly ids: readonly string[];
  readonly pace: AskSchedule;
  state: typeof RESTING | typeof ASKING | typeof SLEEPING = RESTING;
  /** Whether units were given back during a question. The store is then asked again at once. */
  wasWoken = false;
  stopTimer = (): void => {};
  /** The lines with a waiter that has no place yet. */
  readonly newcomers = new Set<WaitingLine>();
  /** The number of lines, including lines of only held waiters. */
  size = 0;
  /** The lines with a waiter that is not held, in the order of their turns. */
  readonly #round = new List<WaitingLine>();
  /** The units of a round for each unit of weight: the largest cost so far. */
  #quantum = 1;
  /** The time of the last denial for which the next question is about all tenants, because the store keeps a free slot for one of them. */
  #aroundAt = -Infinity;
  isAround = false;
  /** The number of returns since the last question, and the lines of the tenants that gave units back. */
  #returns = 0;
  readonly #returned = new Set<WaitingLine>();

  constructor(key: string, ids: readonly string[], hasPeers: boolean) {
    this.key = key;
    this.ids = ids;
    this.pace = new AskSchedule(hasPeers);
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

  leave(line: WaitingLine): void {
    this.pause(line);
    this.newcomers.delete(line);
    line.gate = undefined;
    this.size--;
  }

  pause(line: WaitingLine): void {
    if (line.spot) this.#round.remove(line.spot);
    line.spot = undefined;
    line.credit = 0;
  }

  note({ costs: { cost } }: Waiter): void {
    this.#quantum = Math.max(this.#quantum, cost);
  }

  /** Records an admission. The line's turn ends with the line's last waiter, or with the line's part of the round. */
  spend(line: WaitingLine, cost: number): void {
    line.credit = this.#creditFor(line, line.credit, cost) - cost;
    if (!line.next) this.pause(line);
    else if (line.spot && line.next.value.costs.cost > line.credit && line.spot.after) {
      this.#round.remove(line.spot);
      line.spot = this.#round.insert(line, this.#round.last);
    }
  }

  /** Records that units were given back. @param line the line of the tenant, if further requests of the tenant wait */
  noteReturn(line: WaitingLine | undefined): void {
    if (!this.next) return;
    this.#returns++;
    if (line) this.#returned.add(line);
  }

  /** Forgets the returns, because a question is sent. */
  forgetReturns(): void {
    this.#returns = 0;
    this.#returned.clear();
  }

  /** Whether several lines have a waiter that is not held. */
  get isCrowded(): boolean {
    return this.#round.first !== this.#round.last;
  }

  /** Looks for the tenant for which the store keeps a free slot. @returns false if the last question has done so, or there is no other tenant */
  lookAround(now: number): boolean {
    this.isAround = this.isCrowded && now >= this.#aroundAt + AROUND_MS * this.size;
    if (this.isAround) this.#aroundAt = now;
    return this.isAround;
  }

  /**
   * The first waiters of further lines: of the tenants that gave a slot back, whose shares have room for it, and of the tenants that have not
   * asked lately, so that the store knows all tenants that wait.
   */
  due(now: number, group: readonly Watcher[]): Watcher[] {
    const asked = new Set(group.map(({ line }) => line));
    const before = this.isAround ? now : now - KEPT_MS;
    this.isAround = false;
    const askers: Watcher[] = [];
    for (let spot = this.#round.first; spot && askers.length < MOST_KEPT; spot = spot.after) {
      const line = spot.value;
      const isDue = line.askedAt <= before || this.#returned.has(line);
      if (!asked.has(line) && line.next && isDue) askers.push({ line, link: line.next });
    }
    return askers;
  }

  /** The waiters in a question to the store, by one set, and whether there are no further waiters. */
  group(now: number): { set: PolicySet; group: Watcher[]; isAll: boolean } {
    const set = setOf(this.next!.value, now);
    const group: Watcher[] = [];
    let sum = 0;
    let largest = 0;
    let last: Costs['costs'];
    for (const asker of this.#inTurn()) {
      const { value } = asker.link;
      const { cost, costs } = value.costs;
      sum += cost;
      const isLess = costs ? costs.join() !== last?.join() : cost < largest;
      const isSafe = this.pace.hasUnits(sum, isLess, group.length < this.#returns);
      if (group.length > 0 && (!isSafe || setOf(value, now) !== set)) return { set, group, isAll: false };
      group.push(asker);
      largest = Math.max(largest, cost);
      last = costs;
    }
    return { set, group, isAll: true };
  }

  /** The waiters in the order of their turns, as if every waiter were admitted. */
  *#inTurn(): Generator<Watcher> {
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
