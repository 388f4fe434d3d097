import { NO_NOTE } from '../../contract/change-note.js';
import { BAN_TAG } from '../../stores/keys.js';
import { notesOfBans } from './ban-finds.js';
import { cannotBan } from './ban-scope.js';
import type { KeyPart, KeyQuestion, PartAnswer, PolicyAnswer } from '../key-part.js';

/** The ban of a key in a limiter. */
export interface KeyBan {
  /** The rest of the ban, ms, or 0. */
  readonly bannedForMs: number;
  /** The operator of a ban by hand, if there is a note. */
  readonly bannedBy: string | null;
  /** The reason of a ban by hand, or `null`. */
  readonly banReason: string | null;
}

/** The part of bans in the views of keys. */
export const banPart: KeyPart<KeyBan> = {
  absent: { bannedForMs: 0, bannedBy: null, banReason: null },
  of: banOfOne,
};

/** The ban of the first owner, or of the second if the limiter does not ban by the dimension of the first: a tenant is also denied by a ban of its limit's key. */
async function banOfOne({
  state: { bans },
  published,
  owners,
  limits,
}: KeyQuestion): Promise<PartAnswer<KeyBan>> {
  const lefts = await bans.lefts(owners);
  const notes = await notesOfBans(bans, owners, lefts);
  const doubts = owners.map(({ name, by }) => cannotBan(published, name as string, by));
  const at = owners.length > 1 && doubts[0]?.code === 'NO_BAN' ? 1 : 0;
  const left = lefts[at] ?? 0;
  if (left instanceof Error) throw left;
  const doubt = left > 0 && doubts[at]?.code === 'NO_BAN' ? doubts[at] : undefined;
  const { by: bannedBy, reason: banReason } = notes.get(owners[at]!) ?? NO_NOTE;
  const state = { owner: owners[at]!, id: BAN_TAG };
  const fields = { bannedForMs: left, bannedBy, banReason };
  const isInForce = left > 0 && !doubt;
  return {
    ...{ fields, state, doubt },
    rule: isInForce ? (answer) => ofBanned(fields, answer, limits?.shadow ?? false) : undefined,
  };
}

/** The answer to a banned key. A key without quota is still denied when the ban ends. */
function ofBanned(
  { bannedForMs }: KeyBan,
  { allowed, retryAfterMs }: PolicyAnswer,
  shadow: boolean,
): PolicyAnswer {
  const comesBack = allowed !== false || retryAfterMs !== null;
  const wait = comesBack ? Math.max(bannedForMs, retryAfterMs ?? 0) : null;
  return { allowed: shadow, reason: 'banned', retryAfterMs: wait };
}
