import { HeadgateError } from '../../common/errors.js';
import type { ChangeNoteOptions } from '../../contract/change-note.js';
import { publishChange } from '../../contract/diagnostics.js';
import type { Key } from '../../contract/key.js';
import type { OverridePlace } from '../../contract/store.js';
import { BannableLimiter } from '../bans.js';
import { wake } from '../waiting/wake-ups.js';
import type { Override, OverrideChange, OverrideNote } from './override.js';
import type { OverrideWriter } from './override-writer.js';

/** The part of a limiter about overrides. */
export class OverridableLimiter extends BannableLimiter {
  /**
   * Gives a key separate limits, in every process at once, but another process may repeat an earlier denial (`localDenials`), or spend its
   * slice, for up to a second. Spent units stay spent. The limiter needs the option `overrides: true`.
   *
   * @param key any string, or an object with the key of one dimension (`{ org: 'acme' }`), whose policies then change
   * @param change a policy as text (`'1000/1m'`), some of its fields (`{ limit: 1000 }`), changes by the policies' names, or another tier: see
   * `OverrideChange`. An earlier override is replaced
   * @param note the duration, the operator and the reason. Without `for` and `until` the override lasts until removed
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_INVALID_KEY`,
   * `HEADGATE_UNKNOWN_DIMENSION`, before anything is stored; `HEADGATE_OVERRIDES` without the option; `HEADGATE_CLOSED`; or the store's error
   */
  async override(key: Key, change: OverrideChange, note?: OverrideNote): Promise<void> {
    this.#wakeAt(await this.overrides.set(someKey(key), change, note));
    publishChange(this.setup.set.name, 'override', key, note);
  }

  /**
   * Gives every key other limits, in every process within two seconds. A key's own override is stronger.
   *
   * @throws as `override`
   */
  async overrideAll(change: OverrideChange, note?: OverrideNote): Promise<void> {
    await this.overrides.set(undefined, change, note);
    publishChange(this.setup.set.name, 'override', undefined, note);
  }

  /** The override of a key, or of all keys without `key`. @returns undefined without an override. @throws as `override` */
  async overrideOf(key?: Key): Promise<Override | undefined> {
    return this.overrides.of(key);
  }

  /**
   * Ends the override of a key, or of all keys without `key`.
   *
   * @param note the operator and the reason
   * @returns whether there was an override
   * @throws as `override`
   */
  async removeOverride(key?: Key, note: ChangeNoteOptions = {}): Promise<boolean> {
    const [place, was] = await this.overrides.remove(key, note);
    this.#wakeAt(place);
    if (was) publishChange(this.setup.set.name, 'remove-override', key, note);
    return was;
  }

  /** @internal The writer of overrides. @throws HeadgateError `HEADGATE_CLOSED`, `HEADGATE_OVERRIDES` */
  get overrides(): OverrideWriter {
    const { life, live } = this.setup;
    life.checkOpen();
    if (live) return live.writer;
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      'override: this limiter does not support overrides. Create it with overrides: true.',
    );
  }

  #wakeAt(place: OverridePlace): void {
    if ('subject' in place) wake(this.setup.set.name, place.subject);
  }
}

/** @throws HeadgateError `HEADGATE_INVALID_KEY` */
function someKey(key: Key): Key {
  if (key !== undefined && key !== null) return key;
  throw new HeadgateError(
    'HEADGATE_INVALID_KEY',
    'key: missing. Pass the key whose limits you want to change, or call overrideAll.',
  );
}
