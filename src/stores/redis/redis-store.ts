import { HeadgateError } from '../../common/errors.js';
import { Across, checkAcross } from './across.js';
import { BanBook, BOOK_BOUNDS, bookKeys, logArgs } from './operators/ban-book.js';
import { Batcher, type Batch } from './calls/batch.js';
import { ScriptCalls } from './calls/script-calls.js';
import type { Commands, Done } from './clients/commands.js';
import { checkServers, type Finding } from './operators/check.js';
import { Denials } from './local/denials.js';
import type { KeyHashing } from './secret-keys.js';
import { DEADLINE, Plans, type Plan, type Records } from './calls/plans.js';
import { Publisher } from './operators/publisher.js';
import { usesOf } from './operators/script-commands.js';
import { assemble, type Script } from './scripts.js';
import {
  malformedReply,
  perSet,
  type Announced,
  type Announcement,
  type Change,
  type ChangeReply,
  type Clock,
  type LeaseChange,
  type MaybePromise,
  type OverridePlace,
  type OverrideStore,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../../contract/store.js';
import { NO_NOTE, type BanNote } from '../../contract/ban-options.js';
import { costAt } from '../../contract/costs.js';
import { warnOnce } from '../../common/warnings.js';
import { UNENDED_RECORD_MS, MAX_ENTRIES_PER_RECORD, type RecordChange } from '../../contract/overrides.js';
import { overrideChange, resetChange, type Change as LoggedChange } from '../journal.js';
import { overriddenKey, recordKey, ownerTextOfPlace, ownerTexts } from '../keys.js';
import { overrideBookArgs, overrideBookKeys } from './operators/override-book.js';
import { Traffic } from './operators/traffic.js';
import { costArg, decode, decodeChange, policyArgs } from './calls/wire.js';

/** The most servers that are remembered. Addresses change while a process runs. Beyond this number all are forgotten and learned again. */
const MAX_SERVERS = 1000;

/** The most charges that one call returns. */
const MAX_RETURNS_PER_CALL = 32;

/** The most repetitions of a call because its error taught something: the server's time, or that there are overrides. */
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
}

/** Stores state in Redis or Valkey, and decides in one EVALSHA. `redisStore` creates it. */
export class RedisStore implements Store {
  readonly #commands: Commands;
  readonly #clock: Clock | undefined;
  readonly #prefix: string;
  readonly #text: KeyHashing['text'];
  /** The calls by server of a cluster, because each server has its own clock and its own scripts. */
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

  constructor(commands: Commands, { clock, prefix, localDenials, publish, sample, hashing }: Settings) {
    const { text, mark } = hashing;
    this.#commands = commands;
    this.#clock = clock;
    this.#prefix = prefix;
    this.#text = text;
    this.#plans = new Plans(prefix, text, clock);
    this.#denials = localDenials === undefined ? undefined : new Denials(localDenials);
    this.#publisher =
      publish === undefined ? undefined : new Publisher(this.#announced, commands, prefix, publish, mark);
    this.#book = clock ? undefined : new BanBook(commands, prefix, text);
    this.#traffic = sample === undefined ? undefined : new Traffic(commands, prefix, sample, text);
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
    });
  }

  /** Detects a cluster behind one address. The server has checked the keys before it ran anything. */
  #refusesKeys(error: unknown): boolean {
    return error instanceof Error && error.message.startsWith('CROSSSLOT') && (this.#isCluster = true);
  }

  #run(script: Script, subject: Subject, keys: readonly string[], args: string[]): Promise<unknown> {
    const asked = [subject];
    return this.#callsFor(keys, asked).run({ script, keys, args, timeout: subject.set.timeout, asked });
  }

  /** The calls to the server that has these keys. Also sets the server on the questions' calls. */
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

  waitsFor(): string | undefined {
    return this.#commands.waitsFor();
  }

  serverOf({ set, key }: Subject): string | undefined {
    if (!this.#commands.cluster) return undefined;
    const keys: string[] = [];
    this.#plans.of(set).keys.push(keys, key);
    // A subject without policies means all keys, which have a common record.
    return this.#commands.serverOf(keys[0] ?? recordKey(this.#prefix, ownerTextOfPlace({ set }, this.#text)));
  }

  /** @throws HeadgateError `HEADGATE_DIMENSIONS` */
  checkDimensions(set: PolicySet): void {
    const { names = [], slotBy, acrossSlots } = set.dimensions ?? {};
    if (!this.#isCluster || names.length < 2 || slotBy !== undefined) return;
    if (acrossSlots) return checkAcross(set);
    throw new HeadgateError(
      'HEADGATE_DIMENSIONS',
      `These policies count by keys of several dimensions (${names.join(', ')}), which are in several slots of the cluster. Set ` +
        `slotBy: '${names.at(-1)}' to put all keys of a decision into the slot of that key, or acrossSlots: true to decide ` +
        'key by key. See "Policies by several keys" in docs/redis.md.',
    );
  }

  decide(query: Query): MaybePromise<Reply> {
    const recalled = this.#denials?.recall(query);
    if (recalled) return recalled;
    if (this.#isCluster && isAcross(query)) {
      if (!this.#commands.cluster) warnOfHiddenCluster(query.set);
      return this.#across.decide(query);
    }
    return this.#batcher.ask(query);
  }

  readonly #decode = (batch: Batch, reply: unknown): readonly (Reply | Error)[] => {
    const { set, queries, asked } = batch;
    const answers = decode(reply, queries.length, set);
    if (!this.#denials && !set.ban) return answers;
    for (let i = 0; i < queries.length; i++) {
      const answer = answers[i]!;
      if (answer instanceof Error) continue;
      this.#denials?.learn(queries[i]!, answer, asked);
      if (answer.ban !== 0) this.#book?.learn(queries[i]!, answer);
    }
    return answers;
  };

  /** Runs a call that may end a denial. Earlier decisions are sent first, and remembered denials are forgotten. */
  async #change<T>(subject: Subject, run: () => Promise<T>): Promise<T> {
    this.#batcher.flush(subject.set.name);
    this.#denials?.forget(subject);
    try {
      return await run();
    } finally {
      this.#denials?.forget(subject);
    }
  }

  readonly #send = (batch: Batch, done: Done, tries = 0): void => {
    const { set, peek, queries } = batch;
    const plan = this.#plans.of(set);
    const keys: string[] = [];
    for (const { key } of queries) plan.keys.push(keys, key);
    const args = plan.evaluateArgs.slice();
    pushCosts(args, queries, peek);
    if (plan.leases) for (const query of queries) args.push(query.lease);
    if (plan.records) this.#pushRecords(plan, plan.records, queries, keys, args);
    const call = { script: plan.evaluate, keys, args, timeout: set.timeout, asked: queries };
    const calls = this.#callsFor(keys, queries);
    if ((!plan.moves && !plan.records) || tries === MAX_REPETITIONS) return calls.send(call, done);
    calls.send(call, (error, reply) => {
      const learns = error && (this.#plans.learnsTime(error) || plan.records?.learns(error));
      if (learns) this.#send(batch, done, tries + 1);
      else done(error, reply);
    });
  };

  /**
   * Appends the records of all keys; or, as long as the limiter has no overrides, one key that exists while it has any. In a cluster that
   * key would be in another slot.
   */
  #pushRecords(
    plan: Plan,
    records: Records,
    queries: readonly Query[],
    keys: string[],
    args: string[],
  ): void {
    if (records.areSent || queries.length === 1 || this.#isCluster) {
      for (const { key } of queries) plan.keys.pushRecords(keys, key);
      args.push(records.sign);
    } else {
      keys.push(records.flag);
      args.push('f');
    }
  }

  whenReady(): Promise<void> {
    return this.#commands.whenReady();
  }

  adjust(change: Change): Promise<ChangeReply> {
    if (this.#isCluster && isAcross(change)) return this.#across.adjust(change);
    return this.#change(change, () => this.#adjust(change));
  }

  async #adjust(change: Change, again = false): Promise<ChangeReply> {
    const { set, key, units, charged } = change;
    const plan = this.#plans.of(set);
    const keys = plan.keys.policies(key, charged !== undefined);
    if (set.overrides) keys.push(...plan.keys.records(key));
    const args = [DEADLINE, ...plan.adjustArgs, ...chargeArgs(change)];
    try {
      return decodeChange(await this.#run(plan.adjust, change, keys, args), units.length);
    } catch (error) {
      if (again || !this.#plans.learnsTime(error)) throw error;
      return this.#adjust(change, true);
    }
  }

  /** Returns charges of several keys. Where one call may have several keys, the call is the same as for one key with all their policies. */
  async giveBack(changes: readonly Change[], again = false): Promise<void> {
    const live = changes.filter(({ set }) => set.overrides);
    if (live.length > 0) {
      // The value of a bucket's unit depends on the key's overrides, which `adjust` reads.
      const others = changes.filter(({ set }) => !set.overrides);
      await Promise.all([...live.map((change) => this.adjust(change)), this.giveBack(others)]);
      return;
    }
    if (changes.length === 0) return;
    const most = this.#isCluster ? 1 : MAX_RETURNS_PER_CALL;
    if (changes.length > most) {
      const calls: Promise<void>[] = [];
      for (let i = 0; i < changes.length; i += most) calls.push(this.giveBack(changes.slice(i, i + most)));
      await Promise.all(calls);
      return;
    }
    const keys: string[][] = changes.map(({ set, key }) => this.#plans.of(set).keys.policies(key, true));
    const own = keys.flatMap((each) => each.slice(0, each.length / 2));
    const histories = keys.flatMap((each) => each.slice(each.length / 2));
    const policies = changes.flatMap(({ set }) => set.policies);
    const args = [DEADLINE, ...policyArgs(policies, this.#plans.now), ...changes.flatMap(chargeArgs)];
    const kernels = policies.map(({ kernel }) => kernel);
    for (const change of changes) this.#denials?.forget(change);
    try {
      await this.#run(assemble('adjust', kernels, false), changes[0]!, [...own, ...histories], args);
    } catch (error) {
      const isLate = (error as HeadgateError).code === 'HEADGATE_PROCESS_LATE';
      if (again || !(isLate || this.#plans.learnsTime(error))) throw error;
      await this.giveBack(changes, true);
    }
    for (const change of changes) this.#denials?.forget(change);
  }

  lease(change: LeaseChange): Promise<boolean> {
    if (this.#isCluster && isAcross(change)) return this.#across.lease(change);
    return this.#change(change, async () => {
      const { set, key, lease, action } = change;
      const policies = set.policies.filter(({ traits }) => traits.holdsSlots);
      const all = this.#plans.of(set).keys.policies(key);
      const keys = policies.map((policy) => all[set.policies.indexOf(policy)]!);
      const units = policies.map((policy) => String(costAt(change, set.policies.indexOf(policy))));
      const args = [DEADLINE, action, lease, ...policyArgs(policies, this.#plans.now), ...units];
      const kernels = policies.map(({ kernel }) => kernel);
      return (await this.#run(assemble('lease', kernels, false), change, keys, args)) === 1;
    });
  }

  reset(subject: Subject, isLogged = true): Promise<void> {
    if (this.#isCluster && isAcross(subject)) return this.#across.reset(subject, isLogged);
    return this.#change(subject, async () => {
      const { set, key } = subject;
      const keys = this.#plans.of(set).keys.policies(key, true);
      const lives = set.policies.map(({ life }) => String(life));
      await this.#run(assemble('reset', [], false), subject, keys, [DEADLINE, ...lives]);
      if (isLogged) for (const owner of ownerTexts(subject, this.#text)) this.#book?.log(resetChange(owner));
    });
  }

  ban(subject: Subject, duration: number, note: BanNote = NO_NOTE): Promise<void> {
    return this.#change(subject, async () => {
      const { set, key } = subject;
      const params = Object.values(set.ban!).map(String);
      const args = [DEADLINE, String(duration), ...params];
      const keys = [this.#plans.of(set).keys.ban(key)];
      const left = await this.#run(assemble('set-ban', [], true), subject, keys, args);
      this.#book?.set(subject, duration, Number(left), note);
    });
  }

  readonly overrides: OverrideStore = {
    read: async (place) => {
      const owner = ownerTextOfPlace(place, this.#text);
      const keys = [recordKey(this.#prefix, owner)];
      return recordFrom(
        await this.#run(assemble('read-override', [], false), subjectAt(place), keys, [DEADLINE]),
      );
    },
    change: async (place, change) => {
      const subject = subjectAt(place);
      const owner = ownerTextOfPlace(place, this.#text);
      const { entry, duration, life } = change;
      const args = [
        DEADLINE,
        entry,
        ...[duration, life, UNENDED_RECORD_MS, MAX_ENTRIES_PER_RECORD].map(String),
      ];
      const keys = [recordKey(this.#prefix, owner)];
      if (!this.#isCluster) keys.push(overriddenKey(this.#prefix, subject.set.name));
      const script = assemble('set-override', [], false);
      const before = recordFrom(
        await this.#change(subject, () =>
          this.#run(script, subject, keys, args).catch((error: unknown) => {
            // A cluster may be behind one address.
            if (!this.#refusesKeys(error)) throw error;
            return this.#run(script, subject, keys.slice(0, 1), args);
          }),
        ),
      );
      // The caller of an override waits without a time limit.
      const logged = overrideChange(owner, change, ...before);
      if (logged) await this.#note({ set: subject.set, key: subject.key }, owner, change, logged);
      return before;
    },
  };

  /** Records an override for operators, in other slots. If that fails, the override is still in force. */
  async #note(subject: Subject, owner: string, change: RecordChange, logged: LoggedChange): Promise<void> {
    const keys = overrideBookKeys(this.#prefix);
    const script = assemble('note-override', [], false);
    try {
      await this.#run(script, subject, keys, [DEADLINE, ...overrideBookArgs(owner, change)]);
      const args = [DEADLINE, ...BOOK_BOUNDS, ...logArgs(logged)];
      await this.#run(assemble('note-bans', [], false), subject, bookKeys(this.#prefix), args);
    } catch (error) {
      warnOnce(
        'HEADGATE_OVERRIDES_UNLISTED',
        `An override is in force, but \`headgate overrides\` will not show it: ${String((error as Error).message)} docs/failure.md lists ` +
          'the permissions.',
      );
    }
  }

  announce(limiter: Announcement): Announced {
    this.#announced.add(limiter);
    this.#publisher?.begin();
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
    });
    return checkServers(this.#commands, this.#prefix, limiters, uses);
  }

  close(): void {
    this.#publisher?.close();
    this.#book?.close();
    this.#traffic?.close();
  }
}

/** Whether the keys of a subject lie in several slots of a cluster. */
function isAcross({ set, key }: Subject): boolean {
  return typeof key !== 'string' && key.length > 1 && set.dimensions?.slotBy === undefined;
}

/**
 * A cluster behind one address is recognised by its first refusal of several keys, after limiters were accepted.
 *
 * @throws HeadgateError `HEADGATE_DIMENSIONS` for sets that cannot be decided one key after the other
 */
const warnOfHiddenCluster = perSet((set): void => {
  const { names = [], acrossSlots } = set.dimensions ?? {};
  const found = `The server is a cluster behind one address, so the keys of the limiter "${set.name}" (${names.join(', ')}) are in several slots.`;
  const fix = `slotBy: '${names.at(-1)}'`;
  try {
    checkAcross(set);
  } catch (error) {
    warnOnce('HEADGATE_ACROSS_SLOTS', `${found} Its policies cannot be decided key by key. Set ${fix}.`);
    throw error;
  }
  if (acrossSlots) return;
  warnOnce(
    'HEADGATE_ACROSS_SLOTS',
    `${found} The limiter decides key by key, with a call for each, and may deny simultaneous requests wrongly. Set ${fix}, or ` +
      'acrossSlots: true to accept that. See "Policies by several keys" in docs/redis.md.',
  );
});

function subjectAt(place: OverridePlace): Subject {
  return 'subject' in place ? place.subject : { set: place.set, key: '', call: place.call };
}

/** @throws HeadgateError `HEADGATE_MALFORMED_REPLY` */
function recordFrom(reply: unknown): [record: string, now: number] {
  const [step, record] = Array.isArray(reply) ? (reply as unknown[]) : [];
  if (typeof step !== 'number' || typeof record !== 'string') throw malformedReply(reply);
  return [record, Math.floor(step / 1000)];
}

/** The arguments of `adjust.lua` for each charge. */
function chargeArgs({ set, units, charged }: Change): string[] {
  return set.policies.flatMap(({ life }, i) => {
    const step = charged?.steps?.[i] ?? charged?.step ?? 0;
    return [String(units[i]), String(step), String(charged?.marks[i] ?? 0), String(life)];
  });
}

/** Appends the costs of queries: nothing if all cost 1, a single cost if all are equal, one per policy if the costs of a query differ. */
function pushCosts(args: string[], queries: readonly Query[], peek: boolean): void {
  const { cost, costs } = queries[0]!;
  const isAlone = queries.length === 1;
  if (isAlone ? costs !== undefined : queries.some((query) => query.costs !== undefined)) {
    for (const query of queries)
      for (const i of query.set.policies.keys()) args.push(costArg(costAt(query, i), peek));
    return;
  }
  const equal = isAlone || queries.every((query) => query.cost === cost);
  if (!equal) for (const query of queries) args.push(costArg(query.cost, peek));
  else if (cost !== 1 || peek) args.push(costArg(cost, peek));
}
