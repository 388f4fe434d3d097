import { show, withoutPage, type HeadgateError } from '../../common/errors.js';
import { oncePer } from '../../common/lazy.js';
import { notifyUser, type Warn } from '../../common/warnings.js';
import { healthChannel, healthMetricsChannel, type HealthMessage } from '../../contract/diagnostics.js';
import type { Health } from '../../contract/health.js';
import { setsByDimension } from '../../contract/dimension-sets.js';
import type { Store, Subject } from '../../contract/store.js';
import { isLoss, isNotPermitted, isOfRequest, isRefused } from '../../stores/store-error.js';
import { Circuit, type Prober } from './circuit.js';
import { IdleProbes } from './idle-probes.js';
import { Refusals } from './refusals.js';

/**
 * Learns from calls whether a store is up, and which of its servers are down. The limiters of a store share a breaker. Failures before the
 * client chose a server concern every limiter.
 */
export class Breaker {
  answers = 0;
  /** Probes the store while there are no decisions, if a listener or a reader needs its health. */
  readonly idle = new IdleProbes(this);
  /** The listener of each guard. A limiter may be closed while other limiters use the same function. */
  readonly listeners = new Map<object, (health: Health) => void>();
  readonly warners = new Map<object, Warn>();
  readonly #store: Store;
  /** The circuit of each server that has failed since its last answer in time. */
  readonly #circuits = new Map<string | undefined, Circuit>();
  readonly #refusals = new Refusals();
  #state: Health['state'] = 'up';
  #since = Date.now();
  #late = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  /** The circuit because of which a subject's questions are not sent: the store's, or the circuit of a server with a key of the subject. */
  downFor(subject: Subject): Circuit | undefined {
    if (this.#circuits.size === 0) return undefined;
    let down = this.#stopping(undefined, subject);
    for (const part of partsApart(subject)) down ??= this.#stopping(this.#store.serverOf?.(part), subject);
    return down?.takesQuestion() ? undefined : down;
  }

  /** A server that is down because it refuses limiters may answer another limiter. */
  #stopping(server: string | undefined, { set }: Subject): Circuit | undefined {
    const down = this.#downAt(server);
    const mayAnswer =
      down?.lastError && isNotPermitted(down.lastError) && !this.#refusals.refuses(server, set.name);
    return mayAnswer ? undefined : down;
  }

  isDown(server: string | undefined): boolean {
    return (this.#downAt(undefined) ?? this.#downAt(server)) !== undefined;
  }

  #downAt(server: string | undefined): Circuit | undefined {
    const circuit = this.#circuits.get(server);
    return circuit?.down ? circuit : undefined;
  }

  /** The circuit of a server that has failed. */
  circuitOf({ call }: Subject): Circuit {
    const server = call?.server;
    let circuit = this.#circuits.get(server);
    if (!circuit) {
      const made = (circuit = new Circuit(server, () => {
        if (!made.down) this.#circuits.delete(server);
        this.#circuitChanged();
      }));
      this.#circuits.set(server, made);
    }
    return circuit;
  }

  /** The circuit of the server that a question was sent to, if the server fails. */
  failingFor({ call }: Subject): Circuit | undefined {
    return this.#circuits.get(call?.server);
  }

  /** The servers to probe. `undefined` represents the only server of a store. */
  servers(): readonly (string | undefined)[] {
    const servers = this.#store.servers?.() ?? [];
    return servers.length > 0 ? servers : [undefined];
  }

  /** The circuits of failing servers that are not down yet. */
  get failing(): readonly Circuit[] {
    return [...this.#circuits.values()].filter(({ down, failures }) => !down && failures > 0);
  }

  get health(): Health {
    const circuits = [...this.#circuits.values()];
    return {
      state: this.#state,
      since: this.#since,
      failures: circuits.reduce((sum, { failures }) => sum + failures, 0),
      lastError: circuits.findLast(({ lastError }) => lastError)?.lastError,
      slow: circuits.some(({ slow }) => slow),
      late: this.#late,
      serversDown: circuits.flatMap(({ server, down }) => (down && server !== undefined ? [server] : [])),
    };
  }

  /** Records an answer in time. @param late whether this process read the answer too late */
  success({ call, set }: Subject, late: boolean): void {
    if (late) this.#late++;
    this.answers++;
    if (this.#circuits.size > 0 || this.#refusals.size > 0)
      this.#answered(set.name, [undefined, call?.server, ...(call?.answered ?? [])]);
  }

  #answered(limiter: string, servers: readonly (string | undefined)[]): void {
    for (const server of servers) {
      this.#refusals.answer(server, limiter);
      const circuit = this.#circuits.get(server);
      this.#circuits.delete(server);
      circuit?.success();
    }
  }

  /** Records a question without an answer. Not every error is the store's fault. */
  failure(subject: Subject, error: HeadgateError, prober: Prober): void {
    const isLate = error.code === 'HEADGATE_PROCESS_LATE';
    if (isLate || isOfRequest(error)) return this.success(subject, isLate);
    if (isRefused(error)) return;
    const { server, answered } = subject.call ?? {};
    const { name } = subject.set;
    // Other servers may have answered parts of the question.
    if (answered)
      this.#answered(
        name,
        [...answered].filter((other) => other !== server),
      );
    const refused = isNotPermitted(error) ? this.#refusals.refuse(server, name) : 'all';
    if (refused === 'first') this.#refused(name, error);
    if (refused !== 'all') return;
    this.circuitOf(subject).failure(error, subject, prober);
    if (isLoss(error)) {
      const unheard = [...this.warners].flatMap(([guard, warn]) => (this.listeners.has(guard) ? [] : [warn]));
      for (const warn of new Set(unheard)) warn('HEADGATE_STORE_REPLACED', withoutPage(error.message));
      this.#report(this.health);
    }
    // A store that has never answered is more likely set up wrongly than broken.
    if (this.answers === 0) this.#warn('has not answered yet', error);
  }

  answeredLate({ call }: Subject, wasProbe = false): void {
    this.#circuits.get(call?.server)?.answeredLate(wasProbe);
  }

  unwatch(prober: Prober): void {
    this.listeners.delete(prober);
    this.warners.delete(prober);
    this.idle.unwatch(prober);
    for (const circuit of this.#circuits.values()) circuit.unwatch(prober);
  }

  /** Warns, unless there is a listener or a subscriber of the health. Metrics are not one: a log is read where nobody scrapes. */
  #warn(what: string, { message }: HeadgateError): void {
    if (this.listeners.size > 0 || healthChannel.hasSubscribers) return;
    const details = [withoutPage(message), this.#store.waitsFor?.()].join(' ').trim();
    for (const warn of new Set(this.warners.values())) {
      warn(
        'HEADGATE_STORE_DOWN',
        `The store ${what}: ${details} Meanwhile the option onStoreError (compat: passOnStoreError, skipOnError) decides: each process limits by ` +
          'itself, nothing is limited, or requests fail. To handle each change yourself, subscribe to the channel headgate:health or pass onHealth.',
      );
    }
  }

  /** Reports a limiter whose questions the server refuses, while it answers others. The health stays `up`. */
  #refused(name: string, error: HeadgateError): void {
    const text =
      `The store refuses the limiter ${show(name)}, about which onStoreError decides until you grant the permission: ` +
      withoutPage(error.message);
    for (const warn of new Set(this.warners.values())) warn('HEADGATE_STORE_DOWN', text, name);
    this.#report({ ...this.health, lastError: error });
  }

  #circuitChanged(): void {
    const state = this.servers().every((server) => this.isDown(server)) ? 'down' : 'up';
    if (state !== this.#state) this.#since = Date.now();
    this.#state = state;
    const { health } = this;
    const { lastError, serversDown } = health;
    if (lastError && state === 'down') this.#warn('is down', lastError);
    else if (lastError && serversDown.length > 0) this.#warn(`has lost ${serversDown.join(', ')}`, lastError);
    this.#report(health);
  }

  #report(health: Health): void {
    const message: HealthMessage = { store: this.#store, health };
    healthMetricsChannel.publish(message);
    healthChannel.publish(message);
    for (const listener of new Set(this.listeners.values())) notifyUser('onHealth', listener, health);
  }
}

/** A question, and the parts of a question whose keys may lie on several servers. */
function partsApart(subject: Subject): readonly Subject[] {
  const { set, key } = subject;
  if (typeof key === 'string' || set.dimensions?.slotBy !== undefined) return [subject];
  return [...setsByDimension(set).map((part) => ({ set: part.set, key: part.keyOf(key) })), subject];
}

export const breakerOf = oncePer((store: Store) => new Breaker(store));
