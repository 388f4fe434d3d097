import { bannedChange, struckChange, hasBan, setBan } from '../../features/bans/ban-operations.js';
import { forgottenBy } from '../../features/bans/bans.js';
import { NO_NOTE, type ChangeNote } from '../../contract/change-note.js';
import { setsByDimension, type DimensionSet } from '../../contract/dimension-sets.js';
import type { Reply, UsageReply } from '../../contract/reply.js';
import type { LeaseChange, Subject } from '../../contract/store.js';
import type { Place } from '../../features/feature.js';
import { resetChange, type JournalEntry } from '../journal.js';
import { ownerText } from '../keys.js';
import { lease, reset } from './changes.js';
import { usage } from './evaluate.js';

/** The operations of a store on the places of keys, in addition to decisions and changes of their charges. */
export abstract class PlaceOperations {
  /** @internal */
  protected abstract time(): number;
  /** @internal */
  protected abstract places(subject: Subject, now: number): readonly Place[];
  /** @internal The places of other policies, beside the i-th key of a subject. */
  protected abstract placesBeside(i: number, subject: Subject, now: number): readonly Place[];
  /** @internal */
  protected abstract step(now: number): number;
  /** @internal Logs a change of the i-th key of a subject. */
  protected abstract note(i: number, change: JournalEntry, now: number): void;

  /** Like `Store.lease`. */
  lease(change: LeaseChange): boolean {
    const now = this.time();
    return lease(this.places(change, now), change, now);
  }

  /** Like `Store.usage`. */
  usage(subject: Subject): UsageReply {
    const now = this.time();
    return usage(this.places(subject, now), subject, now, this.step(now));
  }

  /** Like `Store.reset`. */
  reset(subject: Subject, isLogged = true): void {
    const now = this.time();
    reset(this.places(subject, now), subject, now, this.step(now));
    if (isLogged) this.logParts(subject, () => true, resetChange, now);
  }

  /** Like `Store.ban`. */
  ban(subject: Subject, duration: number, note: ChangeNote = NO_NOTE, isLogged = true): void {
    const now = this.time();
    const left = setBan(this.places(subject, now), duration, now);
    if (isLogged) this.logParts(subject, hasBan, (owner) => bannedChange(owner, duration, left, note), now);
  }

  /** @internal Logs a ban by denials, and forgets the charges that the ban forgets. */
  protected struck(subject: Subject, reply: Reply, now: number): void {
    this.logParts(subject, hasBan, (owner) => struckChange(owner, subject.set, reply), now);
    const charges = forgottenBy(subject);
    if (!charges) return;
    const banned = setsByDimension(subject.set).findIndex(hasBan);
    reset(this.placesBeside(banned, charges, now), charges, now, reply.step);
  }

  /** @internal Logs a change of some parts of a subject. */
  protected logParts(
    { set, key }: Subject,
    isOf: (part: DimensionSet) => boolean,
    make: (owner: string) => JournalEntry | undefined,
    now: number,
  ): void {
    for (const [i, part] of setsByDimension(set).entries()) {
      const change = isOf(part) ? make(ownerText(set, key, part.name)) : undefined;
      if (change) this.note(i, change, now);
    }
  }
}
