import { DOCS, type HeadgateError } from '../../common/errors.js';
import { warnOnce } from '../../common/warnings.js';
import type { Announced, Announcement } from '../../contract/announcement.js';
import { NO_NOTE, type BanNote } from '../../contract/ban-options.js';
import { idLifeOf, policiesText } from '../../contract/request-ids.js';
import { leaseTag } from '../../contract/shares.js';
import type { ChangeReply, Reply, UsageReply } from '../../contract/reply.js';
import type {
  Change,
  Clock,
  LeaseChange,
  MaybePromise,
  OverrideStore,
  PolicySet,
  Query,
  Store,
  Subject,
} from '../../contract/store.js';
import { reportCrossings } from '../../contract/thresholds.js';
import { overrideChange, resetChange } from '../journal.js';
import { ownerTextOfPlace, ownerTexts } from '../keys.js';
import { Across, checkSlots, isAcross, warnOfHiddenCluster } from './across.js';
import { Batcher, type Batch } from './calls/batch.js';
import * as operations from './calls/operations.js';
import { DEADLINE, Plans } from './calls/plans.js';
import { ScriptCalls } from './calls/script-calls.js';
import { decode, pushCosts } from './calls/wire.js';
import type { Commands, Done } from './clients/commands.js';
import { Denials } from './local/denials.js';
import { BanBook } from './operators/ban-book.js';
import { checkServers } from './operators/check.js';
import type { Finding } from './operators/finding.js';
import { Publisher } from './operators/publisher.js';
import { usesOf } from './operators/script-commands.js';
import { Traffic } from './operators/traffic.js';
import type { KeyHashing } from './secret-keys.js';

/** The most servers that are remembered. Addresses change while a process runs. Beyond this number every server is forgotten and learned again. */
const MAX_SERVERS = 1000;

/** The most charges to return in a call. */
const MAX_RETURNS_PER_CALL = 32;

/** The most repetitions of a call after an instructive error: about the server's time, or about the existence of overrides. */
const MAX_REPETITIONS = 2;

/** The checked options of a store. */
interface Settings {
  readonly clock: Clock | undefined;
  readonly prefix: string;
  /** ms, or `undefined` if denials are not remembered. */
  readonly localDenials: number | undefined;
  readonly publish: number | undefined;
  /** The key of one in so many decisions is counted. Undefined if decisions are not counted. */
  readonly sample: number | undefined;
  readonly hashing: KeyHashing;
  /** Whether crossings of thresholds are appended to a stream. */
  readonly thresholds: 'stream' | false;
}

/** Stores state in Redis or Valkey, and decides in one EVALSHA. `redisStore` creates it. */
export class RedisStore implements Store {
  readonly whenReady: Commands['whenReady'];
  readonly waitsFor: Commands['waitsFor'];
  readonly remembersIds = true;
  readonly #commands: Commands;
  readonly #clock: Clock | undefined;
  /** The calls by server of a cluster, because each server has a separate clock and separate scripts. */
  readonly #calls = new Map<string | undefined, ScriptCalls>();
  readonly #plans: Plans;
  readonly #batcher: Batcher;
  readonly #across = new Across(this);
  /** Whether the servers are a cluster, where the keys of a call must be in one slot. */
  #isCluster: boolean;

  readonly #denials: Denials | undefined;
  readonly #publisher: Publisher | undefined;
  readonly #book: BanBook | undefined;
  readonly #traffic: Traffic | undefined;
  readonly #announced = new Set<Announcement>();

  constructor(commands: Commands, settings: Settings) {
    const { clock, prefix, localDenials, publish, sample, hashing, thresholds } = settings;
    const { text, mark } = hashing;
    this.whenReady = commands.whenReady.bind(commands);
    this.waitsFor = commands.waitsFor.bind(commands);
    this.#commands = commands;
    this.#clock = clock;
    this.#plans = new Plans(prefix, text, clock, thresholds === 'stream');
    this.#denials = localDenials === undefined ? undefined : new Denials(localDenials);
    this.#publisher =
      publish === undefined ? undefined : new Publisher(this.#announced, commands, prefix, publish, mark);
    this.#book = clock ? undefined : new BanBook(commands, prefix, text);
    this.#traffic =
      sample === undefined ? undefined : new Traffic(commands, { prefix, sample, text }, this.#announced);
    this.#isCluster = commands.cluster;
    const isCluster = (): boolean => this.#isCluster;
    this.#batcher = new Batcher({
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
    for (const each of ends) this.#denials?.forget(each);
    try {
      return read(await this.#callsFor(keys, asked).run(call));
    } catch (error) {
      const learns = this.#plans.learnsTime(error) || (!this.#isCluster && this.#refusesKeys(error));
      if (again || !learns) throw error;
      return await this.#run(subject, make, ends, true);
    } finally {
      for (const each of ends) this.#denials?.forget(each);
    }
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
      this.#calls.set(server, (calls = new ScriptCalls(this.#commands, this.#clock)));
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
    return this.#commands.serverOf(keys[0] ?? operations.readOverride(this.#plans, { set }).keys[0]!);
  }

  /** @throws HeadgateError `HEADGATE_DIMENSIONS` */
  checkDimensions(set: PolicySet): void {
    if (this.#isCluster) checkSlots(set);
  }

  decide(query: Query): MaybePromise<Reply> {
    // A repetition is admitted even while its key is denied.
    const recalled = query.id === undefined ? this.#denials?.recall(query) : undefined;
    if (recalled) return recalled;
    if (this.#isCluster && isAcross(query)) {
      if (!this.#commands.cluster) warnOfHiddenCluster(query.set);
      return this.#across.decide(query);
    }
    return this.#batcher.ask(query);
  }

  readonly #decode = (batch: Batch, reply: unknown): readonly (Reply | Error)[] => {
    const { set, queries, asked, withIds } = batch;
    const answers = decode(reply, queries.length, set, withIds);
    for (let i = 0; i < queries.length; i++) {
      const answer = answers[i]!;
      if (answer instanceof Error) continue;
      if (answer.crossings) reportCrossings(queries[i]!, answer.crossings);
      this.#denials?.learn(queries[i]!, answer, asked);
      if (answer.ban !== 0) this.#book?.learn(queries[i]!, answer);
    }
    return answers;
  };

  readonly #send = (batch: Batch, done: Done, tries = 0): void => {
    const { set, peek, queries, withIds } = batch;
    const plan = this.#plans.of(set, withIds);
    const keys: string[] = [];
    const bans = plan.single ? [] : keys;
    for (const { key, id } of queries) {
      plan.keys.push(keys, key, bans);
      if (plan.watches) plan.keys.pushMarks(keys, key);
      if (id !== undefined) plan.keys.pushId(keys, key, id);
    }
    // The short script reads the bans' keys behind the others.
    if (plan.single && set.ban) keys.push(...bans);
    const args = plan.evaluateArgs.slice();
    if (withIds) args.push(String(idLifeOf(set)), policiesText(set));
    pushCosts(args, queries, peek);
    if (plan.leases) for (const query of queries) args.push(query.lease || leaseTag(query));
    if (plan.shares) for (const { weight = 0 } of queries) args.push(String(weight));
    plan.records?.push(queries, keys, args, this.#isCluster);
    if (plan.watches) keys.push(...plan.stream);
    const call = { script: plan.evaluate, keys, args, timeout: set.timeout, asked: queries };
    const calls = this.#callsFor(keys, queries);
    if ((!plan.moves && !plan.records) || tries === MAX_REPETITIONS) return calls.send(call, done);
    calls.send(call, (error, reply) => {
      const learns = error && (this.#plans.learnsTime(error) || plan.records?.learns(error));
      if (learns) this.#send(batch, done, tries + 1);
      else done(error, reply);
    });
  };

  adjust(change: Change): Promise<ChangeReply> {
    if (this.#isCluster && isAcross(change)) return this.#across.adjust(change);
    return this.#change(change, () => operations.adjust(this.#plans, [change])).then((reply) => {
      if (reply.crossings) reportCrossings(change, reply.crossings);
      return reply;
    });
  }

  usage(subject: Subject): Promise<UsageReply> {
    if (this.#isCluster && isAcross(subject)) return this.#across.usage(subject);
    this.#batcher.flush(subject.set.name);
    return this.#run(subject, () => operations.usage(this.#plans, subject));
  }

  /** Returns charges of several keys. */
  async giveBack(changes: readonly Change[], again = false): Promise<void> {
    // The value of a bucket's unit depends on the key's overrides, which only a call for one key reads.
    const live = changes.filter(({ set }) => set.overrides);
    const calls: Promise<unknown>[] = live.map((change) => this.adjust(change));
    const others = changes.filter(({ set }) => !set.overrides);
    const most = this.#isCluster ? 1 : MAX_RETURNS_PER_CALL;
    for (let i = 0; i < others.length; i += most) {
      const some = others.slice(i, i + most) as [Change, ...Change[]];
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

  async ban(subject: Subject, duration: number, note: BanNote = NO_NOTE): Promise<void> {
    const left = await this.#change(subject, () => operations.ban(this.#plans, subject, duration));
    this.#book?.set(subject, duration, left, note);
  }

  readonly overrides: OverrideStore = {
    read: (place) =>
      this.#run(operations.subjectAt(place), () => operations.readOverride(this.#plans, place)),
    change: async (place, change) => {
      const subject = operations.subjectAt(place);
      const before = await this.#change(subject, () =>
        operations.setOverride(this.#plans, place, change, this.#isCluster),
      );
      const logged = overrideChange(ownerTextOfPlace(place, this.#plans.text), change, ...before);
      if (!logged) return before;
      // The caller waits without a time limit. If the override cannot be recorded for operators, it is still in force.
      const asked = { set: subject.set, key: subject.key };
      try {
        await this.#run(asked, () => operations.noteOverride(this.#plans, place, change));
        await this.#run(asked, () => operations.logChange(this.#plans, logged));
      } catch (error) {
        warnOfUnlisted(error as Error);
      }
      return before;
    },
  };

  announce(limiter: Announcement): Announced {
    this.#announced.add(limiter);
    this.#publisher?.begin();
    this.#traffic?.begin();
    const withdraw = (): void => {
      this.#announced.delete(limiter);
      if (this.#announced.size === 0) this.#publisher?.close();
    };
    const traffic = this.#traffic;
    return { withdraw, count: traffic && ((decision) => traffic.count(limiter.name, decision)) };
  }

  /** Checks the servers, and the overrides of the limiters on this store. */
  check(): Promise<Finding[]> {
    const live = [...this.#announced].filter(({ overrides, dynamic }) => overrides && !dynamic);
    const limiters = live.map(({ name, policies, tiers }) => ({
      name,
      sets: new Map([['', policies()], ...tiers]),
    }));
    const uses = usesOf([...this.#announced], {
      publishes: this.#publisher !== undefined,
      recordsBans: this.#book !== undefined,
      countsTraffic: this.#traffic !== undefined,
      streamsThresholds: this.#plans.stream,
    });
    return checkServers(this.#commands, this.#plans.prefix, limiters, uses);
  }

  close(): void {
    this.#publisher?.close();
    this.#book?.close();
    this.#traffic?.close();
  }
}

function warnOfUnlisted(error: Error): void {
  warnOnce(
    'HEADGATE_OVERRIDES_UNLISTED',
    `An override is in force, but \`headgate overrides\` will not show it: ${error.message} ${DOCS}/failure.md lists the permissions.`,
  );
}
