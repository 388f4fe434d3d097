import type { HeadgateError } from '../../common/errors.js';
import type { Announced, Announcement } from '../../contract/announcement.js';
import { NO_NOTE, type ChangeNote } from '../../contract/change-note.js';
import type { ChangeReply, Reply, UsageReply } from '../../contract/reply.js';
import type {
  ChargeChange,
  Clock,
  LeaseChange,
  MaybePromise,
  OverrideStore,
  PolicySet,
  Query,
  Store,
  Subject,
} from '../../contract/store.js';
import { banCall } from '../../features/bans/bans.js';
import { answered, featuresOf, kindOf } from '../../features/features.js';
import { ownerTextOfAll, recordKey } from '../../features/overrides/record-keys.js';
import { overridesOn } from '../../features/overrides/redis-records.js';
import { pushRequestArgs, type FeatureOptions } from '../../features/layout.js';
import { resetChange } from '../journal.js';
import { ownerTexts } from '../keys.js';
import { AcrossSlots, checkSlots, isAcross, needsSeveralSlots, warnOfHiddenCluster } from './across-slots.js';
import { Batcher, type Batch } from './calls/batch.js';
import * as operations from './calls/operations.js';
import { DEADLINE, Plans } from './calls/plans.js';
import { ScriptCalls, Sending } from './calls/script-calls.js';
import { decode, pushCosts } from './calls/wire.js';
import type { Commands, Done } from './clients/commands.js';
import { RememberedDenials } from './local/remembered-denials.js';
import { BanBook } from './operators/ban-book.js';
import { checkServers } from './operators/check.js';
import type { Finding } from './operators/finding.js';
import { Publisher } from './operators/publisher.js';
import { usesOf } from './operators/script-commands.js';
import { trafficOf } from './operators/count-sink.js';
import type { Traffic } from '../counts/traffic.js';
import type { KeyHashing } from './secret-keys.js';

/** The most servers that are remembered. Addresses change while a process runs. Beyond this number every server is forgotten and learned again. */
const MAX_SERVERS = 1000;

const MAX_RETURNS_PER_CALL = 32;

/** The most repetitions of a call after an instructive error: about the server's time, or one from which a sender learns. */
const MAX_REPETITIONS = 2;

interface Settings extends FeatureOptions {
  readonly clock: Clock | undefined;
  /** ms, or `undefined` if denials are not remembered. */
  readonly localDenials: number | undefined;
  readonly publish: number | undefined;
  /** The key of one in so many decisions is counted. Undefined if decisions are not counted. */
  readonly sample: number | undefined;
  readonly hashing: KeyHashing;
}

/** Stores state in Redis or Valkey, and decides in one EVALSHA. `redisStore` creates it. */
export class RedisStore implements Store {
  readonly whenReady: Commands['whenReady'];
  readonly waitsFor: Commands['waitsFor'];
  readonly remembersIds = (set: PolicySet): boolean => !(this.#isCluster && needsSeveralSlots(set));
  readonly overrides: OverrideStore;
  readonly #commands: Commands;
  readonly #clock: Clock | undefined;
  /** The calls by server of a cluster, because each server has a separate clock and separate scripts. */
  readonly #calls = new Map<string | undefined, ScriptCalls>();
  readonly #plans: Plans;
  readonly #batcher: Batcher;
  readonly #across = new AcrossSlots(this);
  /** Whether the servers are a cluster, where the keys of a call must be in one slot. */
  #isCluster: boolean;

  readonly #publisher: Publisher | undefined;
  readonly #book: BanBook | undefined;
  readonly #traffic: Traffic | undefined;
  readonly #announced = new Set<Announcement>();
  readonly #stopListening: () => void;

  constructor(commands: Commands, settings: Settings) {
    const { clock, prefix, localDenials, publish, sample, hashing, stream } = settings;
    const { text, mark } = hashing;
    this.whenReady = commands.whenReady.bind(commands);
    this.waitsFor = commands.waitsFor.bind(commands);
    this.#commands = commands;
    this.#stopListening = commands.listen();
    this.#clock = clock;
    const denials = localDenials === undefined ? undefined : new RememberedDenials(localDenials);
    this.#plans = new Plans({ prefix, text, clock, stream, denials });
    if (publish !== undefined)
      this.#publisher = new Publisher(this.#announced, commands, {
        ...{ prefix, every: publish, mark },
        counts: sample !== undefined,
      });
    this.#book = clock ? undefined : new BanBook(commands, prefix, text);
    this.#traffic = trafficOf(commands, { prefix, sample, text }, this.#announced);
    this.#isCluster = commands.cluster;
    const isCluster = (): boolean => this.#isCluster;
    this.overrides = overridesOn({
      ...{ prefix, text, isCluster },
      policyKeys: ({ set, key }) => this.#plans.of(set).keys.policies(key),
      ask: (subject, call) => this.#run(subject, () => operations.ofFeature(call())),
      change: (subject, call) => this.#change(subject, () => operations.ofFeature(call())),
      list: async (subject, index, length, change) => {
        await this.#run(subject, () => operations.noteChange(index, change.who, length));
        await this.#run(subject, () => operations.logChange(this.#plans, change));
      },
    });
    this.#batcher = new Batcher({
      latency: this.#traffic?.latency,
      get cluster() {
        return isCluster();
      },
      refusesKeys: (error) => this.#refusesKeys(error),
      send: this.#send,
      decode: this.#decode,
      together: (send) => commands.together(send),
      connectionless: commands.connectionless ?? false,
    });
  }

  /** Detects a cluster behind one address. The server has checked the keys before it ran anything. */
  #refusesKeys(error: unknown): boolean {
    return error instanceof Error && error.message.startsWith('CROSSSLOT') && (this.#isCluster = true);
  }

  /**
   * Sends an operation, and sends it anew after an instructive error: about the server's time, or about a cluster behind one address.
   *
   * @param subject the subject whose caller waits for the answer
   * @param ends the subjects whose remembered denials the operation may end
   */
  async #run<T>(
    subject: Subject,
    make: () => operations.Operation<T>,
    ends: readonly Subject[] = [],
    again = false,
  ): Promise<T> {
    const { script, keys, args, read } = make();
    const asked = [subject];
    const call = { script, keys, args: [DEADLINE, ...args], timeout: subject.set.timeout, asked };
    this.#forget(ends);
    try {
      return read(await this.#callsFor(keys, asked).run(call));
    } catch (error) {
      const learns = this.#plans.learnsTime(error) || (!this.#isCluster && this.#refusesKeys(error));
      if (again || !learns) throw error;
      return await this.#run(subject, make, ends, true);
    } finally {
      this.#forget(ends);
    }
  }

  /** Forgets the denials of subjects. */
  #forget(subjects: readonly Subject[]): void {
    for (const { set, key } of subjects) this.#plans.known(set).denials?.forget(key);
  }

  /** Sends a change of a subject, after its earlier decisions. */
  #change<T>(subject: Subject, make: () => operations.Operation<T>): Promise<T> {
    this.#batcher.flush(subject.set.name);
    return this.#run(subject, make, [subject]);
  }

  /** The calls to the server of a call's keys. Also sets the server on the questions' calls. */
  #callsFor([key]: readonly string[], asked: readonly Subject[]): ScriptCalls {
    const server = this.#commands.cluster ? this.#commands.serverOf(key!) : undefined;
    if (server !== undefined) for (const { call } of asked) if (call) call.server = server;
    let calls = this.#calls.get(server);
    if (!calls) {
      if (this.#calls.size >= MAX_SERVERS) this.#calls.clear();
      this.#calls.set(server, (calls = new ScriptCalls(this.#commands, this.#clock, server)));
    }
    return calls;
  }

  servers(): readonly string[] {
    return this.#commands.cluster ? this.#commands.servers().map(({ name }) => name) : [];
  }

  serverOf({ set, key }: Subject): string | undefined {
    if (!this.#commands.cluster) return undefined;
    const keys: string[] = [];
    this.#plans.of(set).keys.push(keys, key);
    // A subject without policies means all keys, which have a common record.
    return this.#commands.serverOf(keys[0] ?? recordKey(this.#plans.prefix, ownerTextOfAll(set.name)));
  }

  /** @throws HeadgateError `HEADGATE_DIMENSIONS` */
  checkDimensions(set: PolicySet): void {
    if (this.#isCluster) checkSlots(set);
  }

  decide(query: Query): MaybePromise<Reply> {
    const plan = this.#plans.known(query.set, kindOf(query));
    const recalled = plan.needsStore ? undefined : plan.denials?.recall(query);
    if (recalled) return recalled;
    if (this.#isCluster && isAcross(query)) {
      if (!this.#commands.cluster) warnOfHiddenCluster(query.set);
      return this.#across.decide(query);
    }
    return this.#batcher.ask(query, plan);
  }

  readonly #decode = (batch: Batch, reply: unknown): readonly (Reply | Error)[] => {
    const { set, queries, asked } = batch;
    const { features, denials } = batch.plan;
    const answers = decode(reply, queries.length, set, features);
    for (let i = 0; i < queries.length; i++) {
      const answer = answers[i]!;
      if (answer instanceof Error || answer.first) continue;
      for (const feature of features) feature.answered?.(queries[i]!, answer);
      denials?.learn(queries[i]!, answer, asked);
      // A ban by this denial is negative.
      if (answer.ban < 0) this.#book?.struck(queries[i]!, answer);
    }
    return answers;
  };

  readonly #send = (batch: Batch, done: Done, tries = 0): void => {
    const { set, peek, queries, plan } = batch;
    if (!plan.isFixed) this.#plans.renew(plan);
    const keys: string[] = [];
    const own = plan.single ? [] : keys;
    for (const query of queries) {
      plan.keys.push(keys, query.key, own);
      if (plan.features.length > 0) this.#plans.pushFeatures(keys, plan.features, query);
    }
    // The short script reads the keys of features behind the others.
    if (plan.single && own.length > 0) keys.push(...own);
    const args = plan.evaluateArgs.slice();
    for (const { requestArgs } of plan.features)
      if (requestArgs) pushRequestArgs(args, requestArgs, queries, this.#plans);
    pushCosts(args, queries, peek);
    for (const sender of plan.senders) sender.push(queries, keys, args, this.#isCluster);
    for (const feature of plan.features) feature.callKeys?.(keys, this.#plans);
    const call = { script: plan.evaluate, keys, args, timeout: set.timeout, asked: queries };
    const calls = this.#callsFor(keys, queries);
    const { senders } = plan;
    if ((!plan.moves && senders.length === 0) || tries === MAX_REPETITIONS)
      return new Sending(calls, call, done).write();
    new Sending(calls, call, (error, reply) => {
      const learns =
        error && (this.#plans.learnsTime(error) || senders.some((sender) => sender.learns(error)));
      if (learns) this.#send(batch, done, tries + 1);
      else done(error, reply);
    }).write();
  };

  adjust(change: ChargeChange): Promise<ChangeReply> {
    if (this.#isCluster && isAcross(change)) return this.#across.adjust(change);
    return this.#change(change, () => operations.adjust(this.#plans, [change])).then((reply) => {
      answered(change, reply);
      return reply;
    });
  }

  usage(subject: Subject): Promise<UsageReply> {
    if (this.#isCluster && isAcross(subject)) return this.#across.usage(subject);
    this.#batcher.flush(subject.set.name);
    return this.#run(subject, () => operations.usage(this.#plans, subject));
  }

  async giveBack(changes: readonly ChargeChange[], again = false): Promise<void> {
    const alone = changes.filter(({ set }) => featuresOf(set).some(({ isPerKey }) => isPerKey));
    const calls: Promise<unknown>[] = alone.map((change) => this.adjust(change));
    const others = changes.filter((change) => !alone.includes(change));
    const most = this.#isCluster ? 1 : MAX_RETURNS_PER_CALL;
    for (let i = 0; i < others.length; i += most) {
      const some = others.slice(i, i + most) as [ChargeChange, ...ChargeChange[]];
      const returned = this.#run(some[0], () => operations.adjust(this.#plans, some), some);
      const repeated = returned.catch((error: unknown) => {
        const isLate = (error as HeadgateError).code === 'HEADGATE_PROCESS_LATE';
        if (again || !(isLate || this.#refusesKeys(error))) throw error;
        return this.giveBack(some, true);
      });
      calls.push(repeated);
    }
    await Promise.all(calls);
  }

  lease(change: LeaseChange): Promise<boolean> {
    if (this.#isCluster && isAcross(change)) return this.#across.lease(change);
    return this.#change(change, () => operations.lease(this.#plans, change));
  }

  reset(subject: Subject, isLogged = true): Promise<void> {
    if (this.#isCluster && isAcross(subject)) return this.#across.reset(subject, isLogged);
    const isReset = this.#change(subject, () => operations.reset(this.#plans, subject));
    const book = isLogged ? this.#book : undefined;
    if (!book) return isReset;
    return isReset.then(() => {
      for (const owner of ownerTexts(subject, this.#plans.text)) book.log(resetChange(owner));
    });
  }

  async ban(subject: Subject, duration: number, note: ChangeNote = NO_NOTE): Promise<void> {
    const call = () => operations.ofFeature(banCall(this.#plans.headsOf, subject, duration));
    const left = await this.#change(subject, call);
    this.#book?.set(subject, duration, left, note);
  }

  announce(limiter: Announcement): Announced {
    this.#announced.add(limiter);
    this.#publisher?.begin();
    this.#traffic?.begin();
    const withdraw = (): void => {
      this.#announced.delete(limiter);
      if (this.#announced.size === 0) this.#publisher?.close();
      traffic?.end();
    };
    const traffic = this.#traffic;
    return { withdraw, count: traffic?.count.bind(traffic, limiter.name) };
  }

  /** Checks the servers, and the overrides of the limiters on this store. */
  check(): Promise<Finding[]> {
    const live = [...this.#announced].filter(({ overrides, dynamic }) => overrides && !dynamic);
    const limiters = live.map(({ name, policies, tiers }) => ({
      name,
      configured: [new Map([['', policies()], ...tiers])],
    }));
    const uses = usesOf([...this.#announced], {
      publishes: this.#publisher !== undefined,
      recordsChanges: this.#book !== undefined,
      countsTraffic: this.#traffic !== undefined,
      streams: this.#plans.stream,
    });
    return checkServers(this.#commands, this.#plans.prefix, { live: limiters, uses });
  }

  close(): void {
    this.#publisher?.close();
    this.#book?.close();
    this.#traffic?.close();
    this.#stopListening();
  }
}
