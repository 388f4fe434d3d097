import { HeadgateError } from '../../common/errors.js';
import type { ChangeNoteOptions } from '../../contract/change-note.js';
import { publishChange } from '../../contract/diagnostics.js';
import type { Key } from '../../contract/key.js';
import type { OverridePlace } from '../../contract/store.js';
import type { CheckedOptions } from '../checked-options.js';
import type { Lifetime } from '../lifetime.js';
import type { LiveLimits } from '../live-limits.js';
import { wake } from '../waiting/wake-ups.js';
import type { Override, OverrideChange, OverrideNote } from './override.js';
import type { OverrideWriter } from './override-writer.js';

/** The changes of overrides by hand. The methods of `Limiter` for overrides explain them. */
export class OverrideOperations {
  readonly #name: string;
  readonly #live: LiveLimits | undefined;
  readonly #life: Lifetime;

  constructor({ set, live }: CheckedOptions, life: Lifetime) {
    this.#name = set.name;
    this.#live = live;
    this.#life = life;
  }

  async set(key: Key, change: OverrideChange, note?: OverrideNote): Promise<void> {
    this.#wakeAt(await this.#writer().set(someKey(key), change, note));
    publishChange(this.#name, 'override', key, note);
  }

  async setAll(change: OverrideChange, note?: OverrideNote): Promise<void> {
    await this.#writer().set(undefined, change, note);
    publishChange(this.#name, 'override', undefined, note);
  }

  async of(key?: Key): Promise<Override | undefined> {
    return this.#writer().of(key);
  }

  async remove(key: Key | undefined, note: ChangeNoteOptions): Promise<boolean> {
    const [place, was] = await this.#writer().remove(key, note);
    this.#wakeAt(place);
    if (was) publishChange(this.#name, 'remove-override', key, note);
    return was;
  }

  /** Throws every error of `set` about the arguments, and stores nothing. */
  check(key: Key | undefined, change: OverrideChange, note: OverrideNote): void {
    this.#writer().check(key, change, note);
  }

  /** The names of the policies of another limiter that a change concerns, although it does not fit them all. @throws HeadgateError as `set` */
  reaches(other: OverrideOperations, key: Key | undefined, change: OverrideChange): readonly string[] {
    return this.#writer().reaches(other.#writer(), key, change);
  }

  /** Lets `set` write the limits for the policies of other limiters, too: those of the same name in other processes. */
  include(others: readonly OverrideOperations[]): void {
    this.#writer().include(others.map((other) => other.#writer()));
  }

  #writer(): OverrideWriter {
    this.#life.checkOpen();
    if (this.#live) return this.#live.writer;
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      'override: this limiter does not support overrides. Create it with overrides: true.',
    );
  }

  #wakeAt(place: OverridePlace): void {
    if ('subject' in place) wake(this.#name, place.subject);
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
