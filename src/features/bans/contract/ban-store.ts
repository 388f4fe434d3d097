import type { ChangeNote } from '../../../contract/change-note.js';
import type { MaybePromise, Subject } from '../../../contract/policy-set.js';

/** A store of bans. */
export interface BanStore {
  /**
   * Bans a key for `duration` ms. 0 ends the ban and forgets earlier ones. A store may keep the note for operators. The administration passes
   * a duration below 0 to end only the ban: denials, and the growth of bans, stay.
   *
   * @param isLogged as in `reset`
   */
  ban(subject: Subject, duration: number, note?: ChangeNote, isLogged?: boolean): MaybePromise<void>;
}
