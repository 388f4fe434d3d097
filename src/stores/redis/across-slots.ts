import { hasBan } from '../../features/bans/ban-operations.js';
import { inBackground } from '../../common/background.js';
import { DOCS, HeadgateError, withoutPage } from '../../common/errors.js';
import { warnOnce } from '../../common/warnings.js';
import { costAt, costsOfPart } from '../../contract/costs.js';
import { limitDimension } from '../../features/shares/contract/shares.js';
import {
  changeOf,
  chargedByAll,
  setsByDimension,
  verdictsOfAll,
  type DimensionSet,
} from '../../contract/dimension-sets.js';
import {
  chargedOf,
  marksOf,
  isUndecided,
  replyWith,
  type ChangeReply,
  type Reply,
  type UsageReply,
} from '../../contract/reply.js';
import {
  holdsSlots,
  lookOf,
  newCall,
  type ChargeChange,
  type LeaseChange,
  type PolicySet,
  type Query,
  type Subject,
} from '../../contract/store.js';
import { refusal } from '../../contract/together.js';
import { countsAttempts } from '../../features/attempts/attempts.js';
import { bansByDenials } from '../../features/bans/ban-waits.js';
import { releaseOf } from '../../features/slots/slots.js';
import { coded, hasDoneNothing } from '../store-error.js';
import { admits, waitOf } from '../../contract/verdicts.js';
import { PartCalls } from './part-calls.js';

/** A store that decides by a single key. */
export interface ByOneKey {
  decide(query: Query): Promise<Reply> | Reply;
  adjust(change: ChargeChange): Promise<ChangeReply>;
  lease(change: LeaseChange): Promise<boolean>;
  reset(subject: Subject, isLogged?: boolean): Promise<void>;
  usage(subject: Subject): Promise<UsageReply>;
}

/** @throws HeadgateError `HEADGATE_DIMENSIONS` for sets that cannot be decided one key after the other */
export function checkAcross(set: PolicySet): void {
  if (countsAttempts(set)) throw refusal('attemptsAcross', 'acrossSlots');
  if (bansByDenials(set)) throw refusal('bansAcross', 'acrossSlots');
}

/** @throws HeadgateError `HEADGATE_DIMENSIONS` for sets whose keys would be in several slots of a cluster */
export function checkSlots(set: PolicySet): void {
  if (!needsSeveralSlots(set)) return;
  const { names, acrossSlots } = set.dimensions!;
  if (acrossSlots) return checkAcross(set);
  throw new HeadgateError(
    'HEADGATE_DIMENSIONS',
    `These policies count by keys of several dimensions (${names.join(', ')}), which are in several slots of the cluster. Set ` +
      `slotBy: '${names.at(-1)}' to put all keys of a decision into the slot of that key, or acrossSlots: true to decide ` +
      `key by key. See "Policies by several keys" in ${DOCS}/redis-cluster.md.`,
  );
}

/** Whether the keys of a subject lie in several slots of a cluster. */
export function isAcross({ set, key }: Subject): boolean {
  return typeof key !== 'string' && key.length > 1 && needsSeveralSlots(set);
}

/** Whether the keys of a request with all dimensions of a set would be in several slots of a cluster. */
export function needsSeveralSlots({ dimensions }: PolicySet): boolean {
  return dimensions !== undefined && dimensions.slotBy === undefined && slotsOf(dimensions.names) > 1;
}

/** The number of slots of keys of some dimensions. Tenants are in the slot of their limit. */
function slotsOf(names: readonly string[]): number {
  return names.filter((name) => limitDimension(name) === undefined).length;
}

/**
 * A cluster behind one address is recognised by its first refusal of several keys, after limiters were accepted.
 *
 * @throws HeadgateError `HEADGATE_DIMENSIONS` for sets that cannot be decided one key after the other
 */
export function warnOfHiddenCluster(set: PolicySet): void {
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
      `acrossSlots: true to accept that. See "Policies by several keys" in ${DOCS}/redis-cluster.md.`,
  );
}

/**
 * Decides by keys of several dimensions, one after the other. If a key denies, the earlier charges are returned. Until then the charges may
 * cause the denial of a simultaneous request.
 */
export class AcrossSlots implements ByOneKey {
  readonly #store: ByOneKey;

  constructor(store: ByOneKey) {
    this.#store = store;
  }

  async decide(query: Query): Promise<Reply> {
    // A cluster behind one address is known only after limiters have taken ids.
    if (query.id !== undefined) throw refusal('idsAcross', 'id');
    const parts = setsByDimension(query.set);
    const calls = new PartCalls(query.call);
    const replies: Reply[] = [];
    try {
      // If the key is banned, the other parts are only looked at.
      for (const i of inOrder(parts)) {
        const reply = await this.#decide(query, parts[i]!, calls);
        if (isUndecided(reply)) {
          await this.#giveBack(query, parts, replies, i);
          return reply;
        }
        replies[i] = reply;
        if (reply.ban === 0 && !denies(parts[i]!, reply)) continue;
        await this.#giveBack(query, parts, replies, i);
        // If a look fails, there is nothing left to return.
        replies.length = 0;
        return await this.#denied(query, i, reply, calls);
      }
    } catch (error) {
      await this.#giveBack(query, parts, replies, -1);
      throw error;
    }
    return merged(parts, replies);
  }

  /** The answer with the verdicts of all parts, after a denial, which has charged nothing. */
  async #denied(query: Query, denied: number, denial: Reply, calls: PartCalls): Promise<Reply> {
    const parts = setsByDimension(query.set);
    const look = lookOf(query, query);
    const looks = parts.map(async (part, i) => (i === denied ? denial : this.#decide(look, part, calls)));
    try {
      const replies = await Promise.all(looks);
      const behind = replies.find(isUndecided);
      return behind ?? { ...merged(parts, replies), ban: denial.ban };
    } catch (error) {
      // A ban denies even while the server of another key is down.
      if (denial.ban > 0) return { ...denial, verdicts: [] };
      throw error;
    }
  }

  #decide(query: Query, part: DimensionSet, calls: PartCalls): Promise<Reply> {
    return calls.ask((call) => this.#store.decide({ ...queryOf(query, part), call }));
  }

  /**
   * Returns the charges of the parts, and reports errors: a charge that cannot be returned expires. @param denied the part that charged
   * nothing
   */
  async #giveBack(
    query: Query,
    parts: readonly DimensionSet[],
    replies: readonly Reply[],
    denied: number,
  ): Promise<void> {
    const { cost, peek } = query;
    if (peek || cost === 0) return;
    await Promise.all(
      parts.flatMap((part, i) => {
        const reply = replies[i];
        if (!reply || i === denied) return [];
        const own = queryOf(query, part);
        const { set, key } = own;
        const units = part.at.map((_, n) => (admits(waitOf(reply.verdicts, n)) ? 0 - costAt(own, n) : 0));
        const returned: Promise<unknown>[] = [
          this.#store.adjust({ set, key, degraded: undefined, units, charged: chargedOf(reply) }),
        ];
        if (own.lease !== '') returned.push(this.#store.lease(releaseOf(own)));
        return returned.map((each) =>
          inBackground('The charge of a denied request was not given back', each),
        );
      }),
    );
  }

  async adjust(change: ChargeChange): Promise<ChangeReply> {
    const parts = setsByDimension(change.set);
    const replies: ChangeReply[] = [];
    const errors: HeadgateError[] = [];
    const calls = new PartCalls(change.call);
    const asked = parts.map((part) =>
      calls.ask((call) => this.#store.adjust({ ...changeOf(change, part), call })),
    );
    for (const each of await Promise.allSettled(asked))
      if (each.status === 'fulfilled') replies.push(each.value);
      else errors.push(coded(each.reason));
    const [first] = errors;
    if (first) {
      // A caller repeats the whole call after an error that excludes a charge, so any other error comes first.
      const undecided = errors.find((each) => !hasDoneNothing(each, change.call ?? newCall()));
      if (undecided || replies.length === 0) throw undecided ?? first;
      throw new HeadgateError(
        'HEADGATE_STORE_ERROR',
        `Only some keys were changed: ${withoutPage(first.message)}`,
      );
    }
    return { ...merged(parts, replies), charged: chargedByAll(parts, replies) };
  }

  async lease(change: LeaseChange): Promise<boolean> {
    const parts = setsByDimension(change.set).filter(({ set }) => holdsSlots(set));
    const calls = new PartCalls(change.call);
    const held = await Promise.all(
      parts.map(({ set, at, keyOf }) => {
        const own = { ...change, ...costsOfPart(change, at), set, key: keyOf(change.key) };
        return calls.ask((call) => this.#store.lease({ ...own, call }));
      }),
    );
    return !held.includes(false);
  }

  async reset(subject: Subject, isLogged?: boolean): Promise<void> {
    await this.#askAll(subject, (part) => this.#store.reset(part, isLogged));
  }

  async usage(subject: Subject): Promise<UsageReply> {
    const replies = await this.#askAll(subject, (part) => this.#store.usage(part));
    const behind = replies.find(isUndecided);
    if (behind) return behind;
    const ban = Math.max(...replies.map((reply) => reply.ban));
    const records = Object.assign({}, ...replies.map((reply) => reply.records)) as UsageReply['records'];
    return { ...merged(setsByDimension(subject.set), replies), ban, records };
  }

  #askAll<T>({ set, key, call }: Subject, ask: (part: Subject) => Promise<T>): Promise<T[]> {
    const calls = new PartCalls(call);
    const asked = setsByDimension(set).map((part) =>
      calls.ask((own) => ask({ set: part.set, key: part.keyOf(key), call: own })),
    );
    return Promise.all(asked);
  }
}

/** The indices of the parts. The part with the ban comes first. */
function inOrder(parts: readonly DimensionSet[]): number[] {
  const numbers = [...parts.keys()];
  return numbers.sort((a, b) => Number(hasBan(parts[b]!)) - Number(hasBan(parts[a]!)));
}

function queryOf(query: Query, { set, at, keyOf }: DimensionSet): Query {
  const lease = holdsSlots(set) ? query.lease : '';
  const costs = costsOfPart(query, at);
  return { ...query, ...costs, peek: query.peek || costs.cost === 0, set, key: keyOf(query.key), lease };
}

function denies({ set }: DimensionSet, { verdicts }: Reply): boolean {
  return set.policies.some(({ shadow }, i) => !shadow && !admits(waitOf(verdicts, i)));
}

/** Merges the replies of several parts. Each server has its own clock, so each part keeps its own step for later returns. */
export function merged(parts: readonly DimensionSet[], replies: readonly Reply[]): Reply {
  const steps: number[] = [];
  const marks: number[] = [];
  parts.forEach(({ at }, part) => {
    const { step, ...reply } = replies[part]!;
    const ofPart = marksOf(reply);
    at.forEach((n, i) => {
      steps[n] = step;
      marks[n] = ofPart[i]!;
    });
  });
  const { now, step } = replies[0]!;
  const verdicts = verdictsOfAll(
    parts,
    replies.map((reply) => reply.verdicts),
  );
  const reply = { ...replyWith(verdicts, now, step), steps, marks };
  if (!replies.some(({ limits }) => limits)) return reply;
  const limits: number[] = [];
  parts.forEach(({ at, set }, part) =>
    at.forEach((n, i) => (limits[n] = replies[part]!.limits?.[i] ?? set.policies[i]!.limit)),
  );
  return { ...reply, limits };
}
