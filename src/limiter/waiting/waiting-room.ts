// A waiter passes these states:
//
//   QUEUED ──> ASKED    a question to the store is sent for the first waiters of the line
//   ASKED ──> QUEUED    the store denied the waiter, or admitted it behind a denied one, and its charge was given back
//   ASKED ──> HELD      the store admitted the waiter, and its turn or the turns before it are still to come
//   ASKED ──> DONE      the store admitted the waiter at once, denied it for good or for too long, or failed
//   HELD ──> DONE       the turn has come, or was given back because the waiter gave up
//   QUEUED ──> DONE     the waiter gave up, lost its place, or the room was closed
//
// A waiter that gives up while it is ASKED or HELD gets an `error`, and is DONE once its charge has been given back.
//
// A line passes these states:
//
//   RESTING ──> ASKING     the first waiter came, or the line was woken
//   ASKING ──> SLEEPING    the store denied, or admitted and another question must not follow at once
//   SLEEPING ──> ASKING    the sleep is over, or units were given back
//   ASKING ──> RESTING     all waiters are HELD
//   ASKING ──> CLOSED      no waiter is left, and no pause
import { onAbort } from '../../common/abort.js';
import type { HeadgateError } from '../../common/errors.js';
import type { Link } from '../../common/list.js';
import type { Timing } from '../../common/timing.js';
import { costsOf } from '../../contract/costs.js';
import { idsOf, joined } from '../../contract/dimension-sets.js';
import { weightIn } from '../../features/shares/contract/shares.js';
import type { PolicySet } from '../../contract/store.js';
import type { LimiterDecision } from '../decision.js';
import type { WaitRequest } from '../request.js';
import { WaitingQueues } from './waiting-queues.js';
import { isOfSharedSlots } from './process-line.js';
import { Questions, type Host } from './questions.js';
import { abortedError, fullError, lateError } from './wait-errors.js';
import { ASKED, HELD, QUEUED, type Waiter } from './waiter.js';
import { ASKING, Gate, WaitingLine } from './waiting-line.js';

/** The requests that wait for admission: by gate, where lines take turns, and in each line in order of arrival. */
export class WaitingRoom {
  readonly #timing: Timing;
  readonly #questions: Questions;
  readonly #lines: WaitingQueues<Waiter, WaitingLine>;
  readonly #hasPeers: boolean;
  readonly #gates = new Map<string, Gate>();
  /** The gates of lines that wait for several keys without a denial by a key, under each key. */
  readonly #undenied = new Map<string, Set<Gate>>();
  #isClosed = false;

  /**
   * @param most the most requests that wait at a time
   * @param mostPerKey the most waiting requests per key
   */
  constructor(most: number, mostPerKey: number, timing: Timing, host: Host) {
    this.#timing = timing;
    this.#hasPeers = host.hasPeers;
    const isClosed = (): boolean => this.#isClosed;
    this.#questions = new Questions(timing, host, {
      get isClosed() {
        return isClosed();
      },
      remove: (line, link) => this.#remove(line, link),
      leave: (line, link, error) => this.#leave(line, link, error),
      takePlace: (line, link) => this.#takePlace(line, link),
      takePlaces: (line) => this.#takePlaces(line),
      gateOf: (line, decision) => this.#gateOf(line, decision),
      move: (line, gate) => this.#move(line, gate),
      close: (gate) => this.#close(gate),
    });
    const giveWay = (line: WaitingLine): void => this.#giveWay(line);
    this.#lines = new WaitingQueues(most, mostPerKey, (key) => new WaitingLine(key), giveWay);
  }

  get size(): number {
    return this.#lines.size;
  }

  /** The waiting requests of each line, by the key that denied them, or by their first key. */
  *waiting(): Generator<readonly [id: string, waiting: number, waitedMs: number]> {
    const now = this.#timing.now();
    for (const line of this.#lines) {
      let [waiting, first] = [0, now];
      for (const { came } of line) {
        waiting++;
        first = Math.min(first, came);
      }
      const denied = line.ids.find((id) => id === line.gate?.key);
      yield [denied ?? line.ids[0]!, waiting, now - first];
    }
  }

  /**
   * @param ids texts that distinguish the keys of the request: see `idsOf`
   * @throws HeadgateError `HEADGATE_QUEUE_FULL`, `HEADGATE_WAIT_TIMEOUT`, `HEADGATE_ABORTED`, `HEADGATE_DENIED`, the error passed to
   * `close`, or the store's error; in every case nothing stays charged
   */
  wait(request: WaitRequest, ids: readonly string[]): Promise<LimiterDecision> {
    const { key, cost, set, fields, timeout, signal, isUnbounded } = request;
    if (signal?.aborted) return Promise.reject(abortedError(signal));
    const line = this.#lines.open(joined(ids));
    line.ids = ids;
    line.weight = fields?.weight ?? weightIn(set);
    const gate = line.gate ?? this.#gateOf(line);
    const before = line.lastBefore(request.priority);
    const after = before ? before.after : line.first;
    // Beside a waiter that was denied, the newcomer has to wait, too. Otherwise the store's answer decides.
    const hasPlace = (gate.next !== undefined && gate.state !== ASKING) || after?.value.hasPlace === true;
    if (hasPlace && !this.#lines.take(line, isUnbounded)) {
      if (!line.first) this.#lines.close(line);
      return Promise.reject(fullError(key));
    }
    return new Promise((resolve, reject) => {
      const came = this.#timing.now();
      const waiter: Waiter = {
        request,
        costs: costsOf(cost, set.policies),
        came,
        deadline: came + timeout,
        resolve,
        reject,
        state: QUEUED,
        asker: undefined,
        hasPlace,
        turn: undefined,
        error: undefined,
        stop: () => {},
      };
      const onTimeout = (): void => this.#giveUp(line, link, lateError(key, line.gate?.pace.denial));
      let stopTimer = (): void => {};
      let stopListening = (): void => {};
      waiter.stop = () => {
        stopTimer();
        stopListening();
      };
      const link = line.join(waiter, before);
      gate.enter(line);
      gate.note(waiter);
      if (line.newcomer) gate.newcomers.add(line);
      if (timeout !== Infinity) stopTimer = this.#timing.after(timeout, onTimeout);
      stopListening = onAbort(signal, () => this.#giveUp(line, link, abortedError(signal)));
      if (gate.next !== link) return;
      if (link.after && mayComeSooner(waiter, link.after.value)) this.#questions.wake(gate);
      else void this.#questions.ask(gate);
    });
  }

  /**
   * The gate where a line waits.
   *
   * @param denial the denial of the line's first waiter, which names the gate. Without a denial, the line waits with lines that were denied
   * for one of the same keys, or else at a separate gate
   */
  #gateOf(line: WaitingLine, denial?: LimiterDecision): Gate {
    // Beyond its share, only this tenant waits. Tenants of shared slots take turns at one gate, because nobody knows the times of releases.
    if (denial?.reason === 'fair-share' && !isOfSharedSlots(denial))
      return this.#openGate(line.key, line.ids);
    const denied = denial && deniedId(denial);
    if (denied !== undefined && line.ids.includes(denied)) return this.#openGate(denied);
    if (line.gate) return line.gate;
    for (const id of line.ids) {
      const gate = this.#gates.get(id);
      if (gate) return gate;
    }
    return this.#openGate(line.key, line.ids[0] === line.key ? [] : line.ids);
  }

  #openGate(key: string, ids: readonly string[] = []): Gate {
    let gate = this.#gates.get(key);
    if (gate) return gate;
    gate = new Gate(key, ids, this.#hasPeers);
    this.#gates.set(key, gate);
    for (const id of ids) this.#undenied.set(id, (this.#undenied.get(id) ?? new Set<Gate>()).add(gate));
    return gate;
  }

  /** Moves a line to the end of another gate. The line's waiters have to wait, so each waiter needs a place. */
  #move(line: WaitingLine, gate: Gate): void {
    line.gate!.leave(line);
    gate.enter(line);
    for (const waiter of line) gate.note(waiter);
    this.#takePlaces(line);
  }

  #close(gate: Gate): void {
    this.#gates.delete(gate.key);
    for (const id of gate.ids) {
      const gates = this.#undenied.get(id);
      if (gates?.delete(gate) && gates.size === 0) this.#undenied.delete(id);
    }
  }

  /** Wakes the gates of the keys of a request, because its units were given back. */
  wake(ids: readonly string[]): void {
    const line = this.#lines.get(joined(ids));
    for (const id of ids) {
      const gate = this.#gates.get(id);
      for (const each of [...(gate ? [gate] : []), ...(this.#undenied.get(id) ?? [])]) {
        each.noteReturn(line);
        this.#questions.wake(each);
      }
    }
  }

  /** Wakes all gates, because limits may have changed. */
  wakeAll(): void {
    for (const gate of [...this.#gates.values()]) this.#questions.wake(gate);
  }

  close(error: HeadgateError): void {
    this.#isClosed = true;
    for (const gate of this.#gates.values()) gate.stopTimer();
    for (const line of this.#lines) {
      // From the end, because the first wait may have to go on until the store answers.
      for (let link = line.last; link; link = link.before) this.#end(line, link, error);
    }
  }

  /** Takes the place of the last bounded waiter of a line, and ends its wait. */
  #giveWay(line: WaitingLine): void {
    const link = line.lastBounded();
    link.value.hasPlace = false;
    if (line.newcomer === link.after) line.newcomer = link;
    this.#lines.vacate(line);
    this.#end(line, link, fullError(link.value.request.key));
  }

  /** Ends a wait at the timeout, or because the caller aborted the wait. */
  #giveUp(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    const { gate } = line;
    const isNext = gate?.next === link && link.value.state === QUEUED;
    this.#end(line, link, error);
    if (isNext) this.#questions.wake(gate);
  }

  /** Ends a wait: at once, after the store's answer, or when the waiter's turn was given back. */
  #end(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    const waiter = link.value;
    waiter.error ??= error;
    if (waiter.state === HELD) waiter.turn?.abort();
    else if (waiter.state !== ASKED) this.#leave(line, link, error);
  }

  /** Takes a waiter out of its line, with an error. An earlier error takes precedence. */
  #leave(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    this.#remove(line, link);
    link.value.reject(link.value.error ?? error);
  }

  #remove(line: WaitingLine, link: Link<Waiter>): void {
    line.leave(link);
    if (link.value.hasPlace) this.#lines.vacate(line, link.value.request.isUnbounded);
    if (line.first) return;
    const { gate } = line;
    this.#lines.close(line);
    gate?.leave(line);
    if (gate?.size === 0) void this.#questions.ask(gate);
  }

  #takePlace(line: WaitingLine, link: Link<Waiter>): boolean {
    const waiter = link.value;
    if (line.newcomer === link) line.newcomer = link.after;
    return (waiter.hasPlace ||= this.#lines.take(line, waiter.request.isUnbounded));
  }

  /** Gives places to all waiters in line, because the waiters have to wait, and rejects every waiter without a place. */
  #takePlaces(line: WaitingLine): void {
    for (let link = line.newcomer; link; link = line.newcomer) {
      if (link.value.error === undefined && this.#takePlace(line, link)) continue;
      line.newcomer = link.after;
      this.#end(line, link, fullError(link.value.request.key));
    }
  }
}

/** Whether a waiter may be admitted before a waiter that it passes, for which the gate sleeps. */
function mayComeSooner(waiter: Waiter, passed: Waiter): boolean {
  const [{ cost, costs }, other] = [waiter.costs, passed.costs];
  const isLess = costs ? costs.join() !== other.costs?.join() : cost < other.cost;
  return isLess || waiter.request.set !== passed.request.set;
}

/** The key that a denial is about, as in `idsOf`. Undefined if the store itself is the reason. */
function deniedId({ reason, policy, subject }: LimiterDecision): string | undefined {
  const isDenied = ({ ban, policies }: PolicySet): boolean =>
    reason === 'banned' ? ban !== undefined : policies.some(({ name }) => name === policy);
  return idsOf(subject, isDenied)[0];
}
