import { DEFAULT_DIMENSION } from '../contract/key.js';
import { DEFAULT_SUBNET } from '../http/client-key.js';
import { dimensionsIn, type Configuration, type Published } from './published.js';
import {
  hashOnly,
  isAddress,
  isOfIpv6,
  subjectOf,
  wrongArgument,
  type Subject,
  type TypedKey,
} from './typed-keys.js';

/** A doubt about a view or a change that was made nevertheless. */
export interface AdminWarning {
  /** The kind of the warning. */
  readonly code: AdminWarningCode;
  /** The doubt and its fix, for people. */
  readonly message: string;
}

/**
 * `UNKNOWN_SCOPE`: no limiter of this name is known. `DIFFERENT`: processes have different options. `NO_BAN`: limiters of this name do not
 * check for such bans. `SHADOW`: the limiter never denies. `OWN_KEYS`: the program makes keys itself. `SHORTENED`: an earlier ban was longer.
 * `NOT_NOTED`: a change was made, but could not be recorded. `UNFIT_OVERRIDE`: an override does not fit all policies. `UNREADABLE`: the published limiters
 * cannot be read. `UNANSWERED`: the limiter has no answer to the key. `UNLIKELY_KEY`: the keys
 * of the limiter are addresses, and the key is not. `SLOTS_FREED`: a reset freed the slots of work that still runs.
 * `CHANGED_SINCE`: the undo of an import left out keys with another ban. `ALL_TIERS`: an override is for several tiers, with their limits before
 * and after. `MAY_BAN`: denials by a lower limit may ban keys. `STILL_BANNED`: denials have banned keys since an override began.
 * `CUT`: a search ended early, so answers may be missing.
 */
export type AdminWarningCode =
  | 'UNKNOWN_SCOPE'
  | 'DIFFERENT'
  | 'NO_BAN'
  | 'SHADOW'
  | 'OWN_KEYS'
  | 'SHORTENED'
  | 'NOT_NOTED'
  | 'UNFIT_OVERRIDE'
  | 'UNREADABLE'
  | 'UNANSWERED'
  | 'UNLIKELY_KEY'
  | 'SLOTS_FREED'
  | 'CHANGED_SINCE'
  | 'ALL_TIERS'
  | 'MAY_BAN'
  | 'STILL_BANNED'
  | 'CUT';

/** The warnings among results that may have none. */
export const warnings = (...all: readonly (AdminWarning | undefined)[]): AdminWarning[] =>
  all.filter((each): each is AdminWarning => each !== undefined);

/** The maximum number of names in a message. */
export const MAX_NAMED = 10;

/** The warning about a name, by the limiters' publications, or `undefined` if there is no doubt. */
export function unknownScope(published: Published, name: string | undefined): AdminWarning | undefined {
  const { scopes, instances, problem, isComplete } = published;
  if (name === undefined || scopes.has(name) || problem !== undefined) return undefined;
  // Limiters of other processes do not publish themselves in a file.
  if (!isComplete) return undefined;
  const called = JSON.stringify(name);
  const more = instances.reduce((sum, instance) => sum + instance.more, 0);
  const all = [...scopes.keys()].map((each) => JSON.stringify(each));
  const others = all.length > MAX_NAMED ? `, and ${all.length - MAX_NAMED} more` : '';
  const message =
    instances.length === 0
      ? `no limiter is published under this \`prefix\`, so a limiter called ${called} is not known.`
      : more > 0
        ? `no limiter called ${called} is published. But ${more} others were too many to be published, and it may be one of them.`
        : `no limiter called ${called} is published. There are: ${all.slice(0, MAX_NAMED).join(', ')}${others}.`;
  return { code: 'UNKNOWN_SCOPE', message };
}

/** The warnings about the publications: whether they can be read, and whether a limiter has one. */
export function doubtsOf(published: Published, name: string | undefined): AdminWarning[] {
  const { problem } = published;
  const unreadable = problem === undefined ? undefined : ({ code: 'UNREADABLE', message: problem } as const);
  return warnings(unreadable, unknownScope(published, name));
}

/** A warning if the limiters of a name differ, because an answer may not apply to all of them. @param result the consequence, if there is another */
export function differing({ scopes }: Published, name: string, result?: string): AdminWarning | undefined {
  const [first, second, ...others] = scopes.get(name) ?? [];
  if (!first || !second) return undefined;
  const isMost = first.instances.length > second.instances.length;
  const answer = `The answer is by ${isMost ? 'the most common one' : 'one of the most common ones'}.`;
  const message = `the processes have ${others.length + 2} different configurations of ${JSON.stringify(name)}. ${result ?? answer}`;
  return { code: 'DIFFERENT', message };
}

/** Checks that the caller and a limiter use the same form of keys. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
export function checkKeys(published: Published, name: string, dimension: string): void {
  checkHashing(published, name);
  const slotBy = published.scopes.get(name)?.find((each) => each.slotBy !== undefined)?.slotBy;
  if (slotBy === undefined || slotBy === dimension) return;
  throw wrongArgument(
    `The limiter ${JSON.stringify(name)} has slotBy: '${slotBy}', so that a key of ${dimension} has state within each ${slotBy}. Call ` +
      'limiter.peek, reset, ban and unban with both keys.',
  );
}

function checkHashing({ scopes, mark }: Published, name: string): void {
  const marks = (scopes.get(name) ?? []).flatMap(({ instances }) => instances.map(({ hashed }) => hashed));
  if (marks.length === 0 || marks.includes(mark)) return;
  const limiter = `The limiter ${JSON.stringify(name)}`;
  throw wrongArgument(
    marks[0] === undefined
      ? `${limiter} does not hash its keys. Omit \`hashKeys\`.`
      : mark === undefined
        ? `${limiter} hashes its keys. Set \`hashKeys\` to the secret of its store's option hashKeys.`
        : `${limiter} hashes its keys with another secret than \`hashKeys\`.`,
  );
}

/** The warning about a change that could not be recorded. */
export function notNoted(why: string | undefined): AdminWarning | undefined {
  if (why === undefined) return undefined;
  return { code: 'NOT_NOTED', message: `the change is in force, but neither indexed nor logged: ${why}` };
}

/**
 * The subject of a typed key, by the keys that the limiters of a scope use for addresses, and a doubt about it.
 *
 * @param dimensions the dimensions whose keys the caller can change, by default those of all policies and bans
 * @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if the limiters differ, for a hash on a store that needs the key, or as `subjectOf`
 */
export function keysIn(
  { scopes, mark, isComplete }: Published,
  name: string,
  typed: TypedKey,
  dimensions = dimensionsIn,
): readonly [Subject, AdminWarning | undefined] {
  // A database hashes a key together with its dimension, so a hash cannot replace the key.
  if (mark !== undefined && !isComplete && typed.isHash) throw hashOnly();
  const configurations = scopes.get(name) ?? [];
  if (!isOfIpv6(typed)) {
    const others = dimensions(configurations).filter((each) => each !== DEFAULT_DIMENSION);
    return [subjectOf(typed), unlikely({ configurations, name, others }, typed)];
  }
  const subnets = [...new Set(configurations.flatMap(({ ipv6Subnets }) => ipv6Subnets))].sort(
    (a, b) => a - b,
  );
  if (subnets.length > 1) {
    throw wrongArgument(
      `The limiters called ${JSON.stringify(name)} make keys of IPv6 addresses by different networks: /${subnets.join(', /')}. Set ` +
        '`ipv6Subnet` to one of them.',
    );
  }
  const subject = subjectOf(typed, subnets[0]);
  // A database does not have the networks of addresses.
  const isOwn = configurations.some(({ instances }) => instances.length > 0) && subnets.length === 0;
  if (!isOwn || subject.keys[0] === subject.given) return [subject, undefined];
  const message =
    `the program makes the keys of ${JSON.stringify(name)} itself, and the key of an IPv6 address was taken to be its network of ` +
    `/${DEFAULT_SUBNET}. Set \`ipv6Subnet\` for another network, or \`raw: true\` for the literal key.`;
  return [subject, { code: 'OWN_KEYS', message }];
}

/** The limiter of a key, and the other dimensions that may be meant. */
interface UnlikelyIn {
  readonly configurations: readonly Configuration[];
  readonly name: string;
  readonly others: readonly string[];
}

/** A warning about a key that cannot occur, because the adapters of all processes make keys of addresses. */
function unlikely(
  { configurations, name, others }: UnlikelyIn,
  { entry, given, dimension }: TypedKey,
): AdminWarning | undefined {
  const areAddresses =
    configurations.length > 0 && configurations.every(({ ipv6Subnets }) => ipv6Subnets.length > 0);
  if (!areAddresses || dimension !== DEFAULT_DIMENSION || typeof entry !== 'string' || isAddress(given))
    return undefined;
  const hint = others.length === 0 ? '' : `Set \`dimension\` for a key of ${others.join(' or ')}. `;
  const message =
    `the keys of ${JSON.stringify(name)} are addresses of clients, so ${JSON.stringify(given)} cannot occur, unless the program also calls the ` +
    `limiter itself. ${hint}Check the key and the name.`;
  return { code: 'UNLIKELY_KEY', message };
}

/** @throws as `checkKeys` and `keysIn` */
export function subjectIn(
  ...[published, name, typed, dimensions]: Parameters<typeof keysIn>
): ReturnType<typeof keysIn> {
  checkKeys(published, name, typed.dimension);
  return keysIn(published, name, typed, dimensions);
}
