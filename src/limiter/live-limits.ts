import { createHash } from 'node:crypto';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { clearTimeout, setTimeout } from '../common/real-time.js';
import { checkShape } from '../common/validate.js';
import type { Warn } from '../common/warnings.js';
import { checkNote, type BanNoteOptions } from '../contract/ban-options.js';
import { CHANGEABLE, changedPolicy, numbersOf, type PolicyChange } from '../contract/change-policy.js';
import { compilePolicies, POLICY_FIELDS } from '../contract/compile-policies.js';
import { unknownDimension, withPolicies } from '../contract/dimensions.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import {
  AS_CONFIGURED,
  FOR_EVER,
  inForce,
  isDamaged,
  lineOf,
  recordDimensions,
  RULE,
  ruleOf,
  saidOf,
  TIER_RULE,
  type Line,
  type OverrideRecord,
} from '../contract/overrides.js';
import type { CompiledPolicy } from '../contract/policy.js';
import {
  isPromise,
  perSet,
  type MaybePromise,
  type OverridePlace,
  type OverrideStore,
  type PolicySet,
  type Store,
} from '../contract/store.js';
import type { Scope } from './scope.js';
import type { Tiers } from './tiers.js';
import { asPatient } from './waiting/patient.js';

/**
 * Which limits a key has for a time: for a limiter with one policy, a policy as text (`'1000/1m'`) or some of its fields
 * (`{ limit: 1000 }`); by name for one with several (`{ minute: '1000/1m', day: false }`, where `false` leaves a policy out); or another
 * tier (`{ tier: 'pro' }`).
 */
export type OverrideChange =
  | string
  | PolicyChange
  | {
      /** The name of one of the limiter's `tiers`. */
      readonly tier: string;
    }
  | { readonly [policy: string]: string | PolicyChange | false };

/** How long an override lasts, who makes it, and why. */
export interface OverrideNote extends BanNoteOptions {
  /** How long: ms or `'1d'`, up to 366 days. Default: until it is removed. */
  for?: Duration;
  /** When it ends instead: a `Date`, ms since 1970, or an ISO 8601 text. It must lie ahead, by at most a hundred years. */
  until?: Date | number | string;
}

/** The override that a key has now. */
export interface Override {
  /** The change as it was given. */
  readonly change: OverrideChange;
  /** Since when, by the store's clock. */
  readonly since: Date;
  /** Until when. `undefined`: until it is removed. */
  readonly until: Date | undefined;
  /** Who made it. */
  readonly by: string | undefined;
  /** Why. */
  readonly reason: string | undefined;
}

/** How often overrides of all keys are read, ms. */
const EVERY = 1000;

/** The most keys whose changes of another kind are remembered, and the most sets that are made for such changes. */
const MOST_KNOWN = 10_000;
const MOST_SETS = 1000;

/** What a change says of each policy. */
type ByName = ReadonlyMap<string, string | PolicyChange | false>;

type Rules = Readonly<Record<string, string>>;

/** A record, and the store's time. */
type Read = readonly [OverrideRecord, number];

/** The overrides of a limiter: what is written of them, and the sets by which overridden keys are decided. */
export class LiveLimits {
  readonly #store: Store;
  readonly #records: OverrideStore;
  readonly #scope: Scope;
  readonly #tiers: Tiers;
  readonly #base: PolicySet;
  readonly #dynamic: boolean;
  readonly #warn: Warn;
  /** The dimensions by which the policies of every tier count: a key of these may have another tier. */
  readonly #tierDimensions: readonly string[];
  /** By key: what its records tell that is not said in numbers (`ruleOf`). */
  readonly #known = new Map<string, Rules>();
  #all: OverrideRecord = '';
  #allLine: Line | undefined;
  /** The sets by which keys are decided, by what overrides them. Made anew when the override of all keys changes. */
  #sets = this.#noSets();
  /** The dimensions whose records no question by a set reads, although they may change its policies. */
  readonly #unreadBy = perSet(({ policies, overrides }: PolicySet): readonly string[] => {
    const dimensions = new Set([...this.#tierDimensions, ...Object.keys(overrides?.rules ?? {})]);
    return [...dimensions].filter((by) => !policies.some(isOf(by)));
  });
  /** The sets by which charges are changed later. */
  #changeSets = this.#noChangeSets();
  #timer: NodeJS.Timeout | undefined;
  /** The first read of the override of all keys, while it is under way. Decisions wait for it, and are degraded if it fails. */
  #firstRead: Promise<void> | undefined;
  #isClosed = false;
  #onChange = (): void => {};

  constructor(
    store: Store,
    base: PolicySet,
    tiers: Tiers,
    scope: Scope,
    { dynamic, warn }: { dynamic: boolean; warn: Warn },
  ) {
    if (!store.overrides) {
      throw new HeadgateError(
        'HEADGATE_OVERRIDES',
        'overrides: this store keeps none. Use memoryStore, redisStore, sqliteStore or stateStore, or give the store the property ' +
          '`overrides`: see docs/extending.md.',
      );
    }
    this.#store = store;
    this.#records = store.overrides;
    this.#base = base;
    this.#tiers = tiers;
    this.#scope = scope;
    this.#dynamic = dynamic;
    this.#warn = warn;
    this.#tierDimensions = tiers.sets.size === 0 ? [] : sharedDimensions(tiers.all);
  }

  /** Begins to read the override of all keys. @param onChange called when it has changed */
  start(onChange: () => void): void {
    this.#onChange = onChange;
    const read = this.#poll();
    read.catch(() => {});
    // A store in this process is read by each decision.
    if (!this.#store.embedded) this.#firstRead = read.finally(() => (this.#firstRead = undefined));
    this.#firstRead?.catch(() => {});
  }

  /** The set by which a key is decided, as far as this process knows. */
  setFor(key: Key, set: PolicySet): PolicySet {
    if (this.#known.size === 0 && this.#allLine === undefined && this.#all === '') return set;
    return this.#sets(set)(this.#known.size === 0 ? undefined : this.#known.get(idOf(key)));
  }

  /**
   * The set by which to ask about a key. If overrides leave out all policies of a dimension, no question reads its record, so it is read here.
   */
  current(key: Key, set: PolicySet): MaybePromise<PolicySet> {
    if (this.#firstRead) return this.#firstRead.then(() => this.current(key, set));
    this.#readAtOnce();
    const own = this.setFor(key, set);
    if (own === set) return set;
    const unread = this.#unreadBy(own).filter((by) => hasKeyOf(key, by));
    if (unread.length === 0) return own;
    const subject = this.#scope.subject(this.#scope.everything, key);
    const answers = unread.map((by) => this.#records.read({ subject, by }));
    const learn = (read: readonly Read[]): PolicySet => this.learn(key, set, rulesOf(unread, read));
    if (!answers.some((answer) => isPromise(answer))) return learn(answers as Read[]);
    // While the store is away, what was known last stays in force.
    return Promise.all(answers as Promise<Read>[]).then(learn, () => this.setFor(key, set));
  }

  /** A set by which a charge is changed later: the store must know the override of all keys as it is now. */
  ofChange(set: PolicySet): PolicySet {
    this.#readAtOnce();
    return this.#changeSets(set);
  }

  /** The set by which to ask again, after the store has told the changes of a key. */
  learn(key: Key, set: PolicySet, told: Rules): PolicySet {
    const id = idOf(key);
    // Not told: the records of dimensions whose policies are left out.
    const rules = { ...this.#known.get(id), ...told };
    this.#known.delete(id);
    if (Object.values(rules).some((json) => json !== '')) {
      if (this.#known.size >= MOST_KNOWN) this.#known.delete(this.#known.keys().next().value!);
      this.#known.set(id, rules);
    }
    return this.setFor(key, set);
  }

  /** Reads what overrides a key, for what is done by hand: no question has told it. Then the scope knows all policies that charge the key. */
  async refresh(key: Key, set: PolicySet): Promise<PolicySet> {
    await this.#read();
    const subject = this.#scope.subject(this.#scope.everything, key);
    const dimensions = recordDimensions(subject.set);
    const read = await Promise.all(dimensions.map(async (by) => this.#records.read({ subject, by })));
    for (const each of this.#tiers.all) this.learn(key, each, rulesOf(dimensions, read));
    return this.setFor(key, set);
  }

  /** @returns whose override it is @throws HeadgateError as `Limiter.override` */
  async set(key: Key | undefined, change: OverrideChange, note: OverrideNote = {}): Promise<OverridePlace> {
    const { place, line, duration } = this.check(key, change, note);
    await this.#write(place, line, duration);
    return place;
  }

  /** What an override would write. @throws HeadgateError as `Limiter.override` */
  check(
    key: Key | undefined,
    change: OverrideChange,
    note: OverrideNote,
  ): { readonly place: OverridePlace; readonly line: string; readonly duration: number } {
    checkShape('override', note, ['for', 'until', 'by', 'reason']);
    const duration = durationOf(note);
    const { by, reason } = checkNote('override', {
      ...(note.by !== undefined && { by: note.by }),
      ...(note.reason !== undefined && { reason: note.reason }),
    });
    const place = this.#placeOf(key);
    const fields = this.#fieldsOf(change, dimensionOf(place));
    const json = JSON.stringify({ change, ...(by !== null && { by }), ...(reason !== null && { reason }) });
    return { place, line: lineOf(fields, json), duration };
  }

  /** @returns whose override it was, and whether there was one */
  async remove(key: Key | undefined, given: BanNoteOptions): Promise<readonly [OverridePlace, boolean]> {
    const { by, reason } = checkNote('removeOverride', given);
    const place = this.#placeOf(key);
    const note = { ...(by !== null && { by }), ...(reason !== null && { reason }) };
    const [before, now] = await this.#write(place, '', 0, note);
    return [place, inForce(before, now) !== undefined];
  }

  async of(key: Key | undefined): Promise<Override | undefined> {
    const [record, now] = await this.#records.read(this.#placeOf(key));
    const line = inForce(record, now);
    if (!line && !isDamaged(record)) return undefined;
    const override = line && overrideOf(line);
    if (override) return override;
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      `The override cannot be read: ${show(line?.json ?? record)}. It changes nothing. Write another one, or remove it.`,
    );
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #write(
    place: OverridePlace,
    line: string,
    duration: number,
    note?: BanNoteOptions,
  ): Promise<readonly [OverrideRecord, number]> {
    const life = Math.max(0, ...this.#scope.everything.policies.map((policy) => policy.life));
    const before = await this.#records.change(place, { line, duration, life, ...(note && { note }) });
    if (!('subject' in place)) await this.#read();
    return before;
  }

  /** @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION` */
  #placeOf(key: Key | undefined): OverridePlace {
    if (key === undefined) return { set: this.#base };
    const set = this.#scope.everything;
    const subject = this.#scope.checkSlot(this.#scope.subject(set, key), key);
    const { slotBy } = this.#scope.by;
    const given =
      typeof key === 'string'
        ? [DEFAULT_DIMENSION]
        : Object.keys(key).filter((name) => (key as Record<string, unknown>)[name] !== undefined);
    const named = given.length > 1 ? given.filter((name) => name !== slotBy) : given;
    const [by, ...more] = named as [string];
    if (more.length > 0) {
      throw new HeadgateError(
        'HEADGATE_INVALID_KEY',
        `key: ${show(key)} names several keys. Override one at a time: { ${by}: ... }.`,
      );
    }
    if (set.policies.some((policy) => policy.by === by)) return { subject, by };
    if (!this.#dynamic)
      throw unknownDimension(
        'key',
        by,
        set.policies.map((policy) => policy.by),
      );
    // Policies by this dimension may come with later requests. Where the key's record is does not depend on them.
    const later = this.#scope.with(compilePolicies('override', [{ limit: 1, window: 1, by }]));
    return { subject: this.#scope.subject(later, key), by };
  }

  /** What a record says of a change: numbers if they suffice; otherwise that clients must read it. @throws HeadgateError */
  #fieldsOf(change: OverrideChange, by: string | undefined): Map<string, readonly number[] | string> {
    const fields = new Map<string, readonly number[]>();
    let isSaid = !this.#dynamic;
    const sets = this.#dynamic ? [] : this.#tiers.all.map((set) => set.policies.filter(isOf(by)));
    const changes = changesOf(change, sets, this.#tiers, this.#dynamic);
    if (!changes) {
      this.#checkTierOf(change, by);
      return new Map([[RULE, TIER_RULE + revisionOf(change)]]);
    }
    for (const policy of sets.flat()) {
      const own = changes.get(policy.name);
      if (own === undefined) continue;
      const numbers = own === false ? undefined : numbersOf(policy, changedPolicy(policy, own));
      if (numbers) fields.set(policy.id, numbers);
      else isSaid = false;
    }
    return isSaid
      ? fields
      : new Map<string, readonly number[] | string>([[RULE, revisionOf(change)], ...fields]);
  }

  #noSets(): (set: PolicySet) => (rules: Rules | undefined) => PolicySet {
    return perSet((set) => {
      const make = (rules: Rules): PolicySet => {
        const own = asPatient(this.#overridden(set, rules), set);
        if (own !== set) this.#scope.remember(own.policies, true);
        return own;
      };
      const configured = make({});
      const made = new Map<string, PolicySet>();
      return (rules) => {
        if (!rules) return configured;
        const id = JSON.stringify(rules);
        let own = made.get(id);
        if (!own) {
          if (made.size >= MOST_SETS) made.clear();
          made.set(id, (own = make(rules)));
        }
        return own;
      };
    });
  }

  #noChangeSets(): (set: PolicySet) => PolicySet {
    return perSet((set) => this.#withRecord(set));
  }

  /**
   * A set with the record of all keys, as far as the store needs it. The store decides by the limits that are in force there, until they end.
   * The debts of buckets depend on earlier rates, too.
   */
  #withRecord(set: PolicySet): PolicySet {
    const { overrides = AS_CONFIGURED, policies } = set;
    const isNeeded = this.#allLine?.rule === '' || policies.some(({ traits }) => traits.drains);
    const all = isNeeded ? this.#all : '';
    return all === overrides.all ? set : { ...set, overrides: { ...overrides, all } };
  }

  /**
   * A set as overrides change it. This is the only place that knows their order. First comes the tier: of a key, or else of all keys; of two keys, that
   * of the dimension that the limiter names last. Then come the changes of its policies: that of all keys, except where a key has a tier of its own,
   * and those of each key. Changes of limits alone are made by the store.
   */
  #overridden(set: PolicySet, rules: Rules): PolicySet {
    const names = this.#scope.everything.dimensions?.names ?? [DEFAULT_DIMENSION];
    const changes = names.flatMap((by) => {
      const [revision = '', json = ''] = (rules[by] ?? '').split('\t');
      return revision === '' ? [] : [{ by, revision, json, isTier: revision.startsWith(TIER_RULE) }];
    });
    const { rule = '', json = '' } = this.#allLine ?? {};
    const applied = new Set<string>();
    let own = rule.startsWith(TIER_RULE) ? this.#change(set, json, undefined) : set;
    const apply = ({ by, json: change }: { by: string; json: string }): void => {
      const changed = this.#change(own, change, by);
      if (changed !== own) applied.add(by);
      own = changed;
    };
    for (const change of changes) if (change.isTier) apply(change);
    if (rule !== '' && !rule.startsWith(TIER_RULE))
      own = this.#change(
        own,
        json,
        undefined,
        ({ by }) => !changes.some((each) => each.isTier && each.by === by),
      );
    for (const change of changes) if (!change.isTier && own.policies.some(isOf(change.by))) apply(change);
    // The store compares the revisions of all records that it reads, also of those that cannot be applied.
    const read = changes.filter(({ by }) => applied.has(by) || own.policies.some(isOf(by)));
    if (read.length === 0) return this.#withRecord(own);
    const revisions = Object.fromEntries(read.map(({ by, revision }) => [by, revision]));
    return this.#withRecord({ ...own, overrides: { ...AS_CONFIGURED, rules: revisions } });
  }

  /**
   * A set as a change makes it. One that does not fit leaves the set as it is, and is reported.
   *
   * @param by undefined: all dimensions
   * @param applies which policies may change
   */
  #change(set: PolicySet, json: string, by: string | undefined, applies = isOf(by)): PolicySet {
    try {
      const { change } = JSON.parse(json) as { change: OverrideChange };
      const concerned = set.policies.filter(isOf(by));
      // A change may name policies that only other tiers, or other requests, have.
      const others = this.#dynamic ? [] : this.#tiers.all.map(({ policies }) => policies.filter(isOf(by)));
      const isSole = [concerned, ...others].every((policies) => policies.length <= 1);
      const changes = changesOf(change, [concerned, ...others], this.#tiers, this.#dynamic, isSole);
      if (!changes) {
        this.#checkTierOf(change, by);
        return withPolicies(set, this.#tiers.of(tierOf(change)).policies, this.#scope.by);
      }
      const policies = set.policies.flatMap((policy) => {
        const own = applies(policy) ? changes.get(policy.name) : undefined;
        return own === undefined ? [policy] : own === false ? [] : [changedPolicy(policy, own)];
      });
      const made = withPolicies(set, policies, this.#scope.by);
      this.#store.checkDimensions?.(made);
      return made;
    } catch (error) {
      this.#reportUnreadable(json, String(error instanceof Error ? error.message : error));
      return set;
    }
  }

  #reportUnreadable(written: string, why: string): void {
    this.#warn(
      'HEADGATE_OVERRIDE_UNREADABLE',
      `The limiter ${JSON.stringify(this.#base.name)} has an override that it cannot apply, so the configured limits stay in force: ${written} ` +
        `(${why}) Remove it, or write one that fits the limiter's policies.`,
    );
  }

  /**
   * Refuses another tier for a key that not every request of the limiter is asked about: the others would not obey it.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`
   */
  #checkTierOf(change: OverrideChange, by: string | undefined): void {
    if (by === undefined || this.#dynamic || this.#tierDimensions.includes(by)) return;
    const [tier] = [...this.#tiers.sets].find(([, { policies }]) => !policies.some(isOf(by))) ?? [];
    const without = tier === undefined ? 'without a tier' : `of the tier ${show(tier)}`;
    throw invalidOption(
      'override',
      change,
      `Requests ${without} have no policy by ${show(by)}, so they would not obey it. Give each tier a policy by ${show(by)}, or override ` +
        `the key of another dimension${this.#tierDimensions.map((name) => ` (${show(name)})`).join('')}.`,
    );
  }

  /** Reads the override of all keys again and again. A timer that keeps no process alive. */
  #poll(): Promise<void> {
    const again = (): void => {
      if (this.#isClosed) return;
      this.#timer = setTimeout(() => void this.#poll().catch(() => {}), EVERY * (0.9 + 0.2 * Math.random()));
      this.#timer.unref();
    };
    const read = this.#read();
    read.then(again, again);
    return read;
  }

  async #read(): Promise<void> {
    this.#learnAll(await this.#records.read({ set: this.#base }));
  }

  /** A store in this process answers at once. So an override of all keys begins and ends there on time, also by an injected clock. */
  #readAtOnce(): void {
    const read = this.#store.embedded ? this.#records.read({ set: this.#base }) : undefined;
    if (read && !isPromise(read)) this.#learnAll(read);
  }

  #learnAll([record, now]: Read): void {
    const line = inForce(record, now);
    if (record === this.#all && line === this.#allLine) return;
    if (isDamaged(record) && record !== this.#all) this.#reportUnreadable(record, 'a line has no times');
    this.#all = record;
    this.#allLine = line;
    this.#sets = this.#noSets();
    this.#changeSets = this.#noChangeSets();
    this.#onChange();
  }
}

/** The override that a line tells. Undefined: no limiter has written it. */
export function overrideOf({ since, until, json }: Line): Override | undefined {
  const said = saidOf(json);
  if (!said) return undefined;
  const { change, by, reason } = said;
  const ends = until === Infinity ? undefined : new Date(until);
  return { change: change as OverrideChange, since: new Date(since), until: ends, by, reason };
}

/** What the records of dimensions tell that is not said in numbers. */
function rulesOf(dimensions: readonly string[], read: readonly Read[]): Rules {
  return Object.fromEntries(read.map(([record, now], i) => [dimensions[i]!, ruleOf(inForce(record, now))]));
}

/** The dimensions by which each of the sets has a policy. */
function sharedDimensions(sets: readonly PolicySet[]): string[] {
  const [first, ...others] = sets;
  const dimensions = recordDimensions(first!);
  return dimensions.filter((by) => others.every(({ policies }) => policies.some(isOf(by))));
}

function hasKeyOf(key: Key, by: string): boolean {
  return typeof key === 'string' ? by === DEFAULT_DIMENSION : key[by] !== undefined;
}

function isOf(by: string | undefined): (policy: CompiledPolicy) => boolean {
  return (policy) => by === undefined || policy.by === by;
}

function dimensionOf(place: OverridePlace): string | undefined {
  return 'subject' in place ? place.by : undefined;
}

function idOf(key: Key): string {
  return typeof key === 'string' ? key : `\0${JSON.stringify(key)}`;
}

/** Names a change, so that a store and a process can tell whether they mean the same. */
function revisionOf(change: OverrideChange): string {
  return createHash('sha256').update(JSON.stringify(change)).digest('base64url').slice(0, 16);
}

/** How long an override lasts, ms; 0: until it is removed. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function durationOf({ for: span, until }: OverrideNote): number {
  if (span !== undefined && until !== undefined)
    throw invalidOption('for, until', { for: span, until }, 'Write one of them.');
  if (span !== undefined) return toMilliseconds('for', span);
  if (until === undefined) return 0;
  const left = new Date(until).getTime() - Date.now();
  if (left >= 1 && left <= FOR_EVER && isOfCalendar(until)) return Math.ceil(left);
  throw invalidOption(
    'until',
    until,
    'Write a time ahead, within a hundred years: a Date, ms since 1970, or an ISO 8601 text.',
  );
}

/** Whether a text names a day that there is. `Date` takes 30 February for 2 March. */
function isOfCalendar(until: Date | number | string): boolean {
  const [day] = (typeof until === 'string' && /^\d{4}-\d\d-\d\d/.exec(until)) || [];
  return day === undefined || new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

const EXAMPLE = "Write a policy ('1000/1m'), some of its fields ({ limit: 1000 }), or { tier: 'pro' }.";

function tierOf(change: OverrideChange): string {
  return (change as { tier: string }).tier;
}

/**
 * What a change says of each policy by its name. Undefined: another tier.
 *
 * @param sets the policies of each tier, as far as the change concerns them
 * @param unknown whether the policies come with each request, so that no name can be checked
 * @param isSole whether a change without names is of the only policy
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_UNKNOWN_TIER`
 */
function changesOf(
  change: OverrideChange,
  sets: readonly (readonly CompiledPolicy[])[],
  tiers: Tiers,
  unknown: boolean,
  isSole = unknown || sets.every((policies) => policies.length <= 1),
): ByName | undefined {
  const names = [...new Set(sets.flat().map(({ name }) => name))];
  const ofSole = (own: string | PolicyChange): ByName => {
    checkChange('override', own);
    return new Map(names.map((name) => [name, own]));
  };
  const several = (): HeadgateError => {
    const sample = names
      .map((name) => `${/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name)}: '1000/1m'`)
      .join(', ');
    return invalidOption(
      'override',
      change,
      `The limiter has several policies. Write each by its name: { ${sample} }.`,
    );
  };
  if (typeof change === 'string') {
    if (!isSole) throw several();
    return ofSole(change);
  }
  if (
    typeof change !== 'object' ||
    change === null ||
    Array.isArray(change) ||
    Object.values(change).every((value) => value === undefined)
  )
    throw invalidOption('override', change, EXAMPLE);
  const fields = Object.keys(change);
  if (fields.includes('tier') && !names.includes('tier')) {
    if (fields.length > 1) throw invalidOption('override', change, 'Write { tier } alone.');
    if (!unknown) tiers.of(tierOf(change));
    return undefined;
  }
  if (isSole && fields.every((field) => POLICY_FIELDS.includes(field) && !names.includes(field)))
    return ofSole(change as PolicyChange);
  const other = fields.find((field) => !names.includes(field));
  if (other !== undefined && POLICY_FIELDS.includes(other) && !isSole) throw several();
  if (other !== undefined && !unknown) {
    const known = names.map((name) => show(name)).join(', ');
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_OPTION',
      `override: ${show(other)} is no policy of the limiter${isSole ? ' and no field that can change' : ''}. Its policies are: ${known}. ${EXAMPLE}`,
    );
  }
  const byName = Object.entries(change) as [string, string | PolicyChange | false][];
  for (const [name, own] of byName) if (own !== false) checkChange(`override.${name}`, own);
  return new Map(byName);
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` unless it is a policy as text, or some fields of one */
function checkChange(what: string, change: unknown): void {
  if (typeof change === 'string') return;
  if (
    typeof change !== 'object' ||
    change === null ||
    Array.isArray(change) ||
    Object.values(change).every((value) => value === undefined)
  )
    throw invalidOption(what, change, EXAMPLE);
  checkShape(what, change, CHANGEABLE);
}
