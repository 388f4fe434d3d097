import { chargesIn } from '../features/bans/bans.js';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { checkBoolean, checkShape } from '../common/validate.js';
import { warningBy } from '../common/warnings.js';
import type { UnbanOptions } from '../features/bans/contract/ban-options.js';
import { checkNote, type ChangeNoteOptions } from '../contract/change-note.js';
import { publishChange } from '../contract/diagnostics.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import { visiblePolicies } from '../features/shares/contract/shares.js';
import type { PolicySet, Subject } from '../contract/store.js';
import { variant } from '../contract/variant.js';
import type { CheckedOptions } from './checked-options.js';
import type { Scope } from './scope.js';
import { wake } from './waiting/wake-ups.js';

/** The part of a limiter about bans by hand. */
export class BannableLimiter {
  readonly #setup: CheckedOptions;

  /** @internal */
  constructor(setup: CheckedOptions) {
    this.#setup = setup;
  }

  /** @internal A getter, so that logs of limiters do not contain it. */
  protected get setup(): CheckedOptions {
    return this.#setup;
  }

  /**
   * Bans a key by hand. The limiter needs the option `ban` (`{}` is enough), because otherwise bans are not checked.
   *
   * @param key with the option `ban: { by: 'account' }`, an object with a key of the dimension: `{ account: 'ada' }`. With `slotBy`, the key of
   * `slotBy` is needed as well, or `undefined` for requests without such a key: `{ account: 'ada', org: 'acme' }`
   * @param duration ms or `'1h'`, up to 366 days
   * @param note the operator and the reason
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_CLOSED`, or the store's
   * error
   */
  async ban(key: Key, duration: Duration, note: ChangeNoteOptions = {}): Promise<void> {
    const { set, store, warn } = this.#setup;
    const subject = this.#bannable(key);
    const forMs = warningBy(warn, () => toMilliseconds('duration', duration, { usual: 'long' }));
    await store.ban(subject, forMs, checkNote('ban', note));
    publishChange(set.name, 'ban', key, note);
  }

  /**
   * Ends a ban, and forgets the key's earlier denials and bans. The key's charges stay, so a key that has spent its quota is still denied.
   * With `fresh: true`, they are forgotten, too.
   *
   * @param options `fresh`, the operator and the reason
   * @throws as `ban`
   */
  async unban(key: Key, options: UnbanOptions = {}): Promise<void> {
    checkShape('unban', options, ['fresh', 'by', 'reason']);
    const { set, scope, store, live } = this.#setup;
    const { fresh, ...note } = options;
    const subject = this.#bannable(key);
    const checked = checkNote('unban', note);
    if (checkBoolean('fresh', fresh, false)) {
      // The key may have a kind of policy by which this process has not decided yet.
      if (live) await live.refresh(key, set);
      const charged = chargesIn(chargesOfBanned(scope), subject);
      if (charged.set.policies.length > 0) await store.reset(charged);
    }
    await store.ban(subject, 0, checked);
    publishChange(set.name, 'unban', key, note);
    wake(set.name, subject);
  }

  /**
   * @throws HeadgateError `HEADGATE_INVALID_OPTION` if the limiter has no bans, `HEADGATE_INVALID_KEY` if the bans are by a different dimension
   */
  #bannable(key: Key): Subject {
    const { set, scope, life } = this.#setup;
    life.checkOpen();
    const subject = scope.checkSlot(scope.subject(set, key), key);
    if (!set.ban)
      throw invalidOption('ban', undefined, 'Create the limiter with the option `ban` ({} is enough).');
    if (subject.set.ban) return subject;
    const { banBy } = scope.by;
    throw new HeadgateError(
      'HEADGATE_INVALID_KEY',
      `key: ${show(key)} cannot be banned, because this limiter bans by ${show(banBy)}. Pass { ${banBy}: ... }.`,
    );
  }
}

/** The policies with charges of a banned key. Slots are not charges: their work still runs. */
function chargesOfBanned(scope: Scope): PolicySet {
  const change = ({ policies }: PolicySet): PolicySet =>
    scope.with(policies.filter(({ by, traits }) => by === scope.by.banBy && !traits.holdsSlots));
  return variant(scope.everything, 'charges', change);
}

/** The field `freshBans` of a limiter's sets. @param scopeOf the scope, which is made after the sets */
export function freshBansOf(scopeOf: () => Scope): NonNullable<PolicySet['freshBans']> {
  return {
    get charges() {
      return chargesOfBanned(scopeOf());
    },
  };
}

/** Refuses a ban by denials if no policy counts by its dimension. @throws HeadgateError `HEADGATE_UNKNOWN_DIMENSION` */
export function checkOffences({ ban }: PolicySet, banBy: string, sets: readonly PolicySet[]): void {
  const policies = sets.flatMap((set) => visiblePolicies(set.policies));
  if (!ban?.after || policies.length === 0 || policies.some(({ by }) => by === banBy)) return;
  const others = [...new Set(policies.map(({ by }) => show(by)))].join(' or ');
  throw new HeadgateError(
    'HEADGATE_UNKNOWN_DIMENSION',
    `ban.by: no policy counts by ${show(banBy)}, and only denials by such policies count towards the ban. Pass ` +
      `ban: { by: ${others} }, or add a policy ${banBy === DEFAULT_DIMENSION ? 'without `by`' : `with by: ${show(banBy)}`}.`,
  );
}
