// The rows of `headgate list`: a key, its state, the policy, and the time left.
import { type KeyVerdictFind, lacksSlots, type PolicyVerdict, useIn } from 'headgate/admin';
import { duration, printable, share, type Table, untilSlot } from '../format.js';
import type { Io } from '../io.js';
import { showKey } from '../keys.js';
import { clock, titled } from '../times.js';

export interface Look {
  readonly io: Io;
  readonly isByUse: boolean;
  /** The author of each ban, and the reason. */
  readonly notes: ReadonlyMap<KeyVerdictFind, string>;
}

/** The end of a ban, in lists with bans. */
export const untilFor = ({ io }: Look): Table<KeyVerdictFind> => ({
  [titled(io, 'until')]: (find) => (find.kind === 'banned' ? clock(io, find.bannedUntil) : '-'),
});

export const columnsFor = ({ io: { colors }, isByUse }: Look): Table<KeyVerdictFind> => ({
  key: showKey,
  state: (find) => {
    if (find.kind === 'banned') return colors.red('banned');
    if (find.kind === 'unreadable') return colors.red(`unreadable: ${printable(find.message)}`);
    if (find.kind !== 'state')
      return find.kind === 'admitted'
        ? `admitted${find.certain ? inTier(find) : ` if the key is${inTier(find) || ' without a tier'}`}`
        : find.certain
          ? colors.yellow(`limited${inTier(find)}`)
          : `would be limited${inTier(find)}`;
    return find.algorithm === 'ban' ? 'denials counted' : (find.algorithm ?? 'of another version');
  },
  policy: (find) => {
    if (find.kind === 'state') return find.policy ?? '-';
    if (find.kind === 'limited' && !isByUse) return `${find.policy ?? '-'}${ownLimit(find)}`;
    if (find.kind !== 'admitted' && find.kind !== 'limited') return '-';
    return find.policies.map(useText).join(', ') + ownLimit(find);
  },
  'time left': (find) => {
    if (find.kind === 'banned') return duration(find.bannedForMs);
    if (find.kind === 'limited')
      return lacksSlots(find.policies) ? untilSlot(find.retryAfterMs) : time(find.retryAfterMs);
    return find.kind === 'state' ? time(find.expiresInMs) : '-';
  },
});

/** The use of a policy: of how many units, and the part of them. */
function useText(verdict: PolicyVerdict): string {
  const { used, quota } = useIn(verdict);
  // The share of a tenant shrinks when other tenants become heavy.
  if (used > quota)
    return `${verdict.name}: ${used} used, ${used - quota} more than its share of ${quota} now`;
  return `${verdict.name}: ${used} of ${quota} used (${share(used, quota)})`;
}

const inTier = ({ tier }: { tier?: string }): string =>
  tier === undefined ? '' : ` in tier ${printable(tier)}`;

/** The mark of an override of a key, with the limit that denies it. An override may change other policies only. */
function ownLimit({
  kind,
  overridden,
  policy,
  policies,
}: Extract<KeyVerdictFind, { policies: unknown }>): string {
  if (!overridden) return '';
  const deciding = policies.find(({ name }) => kind === 'limited' && name === policy);
  const limit = deciding ? `${deciding.limit} per ${duration(deciding.windowMs)}; ` : '';
  return ` (${limit}an override is in force)`;
}

const time = (ms: number | null): string => (ms === null ? 'no end' : duration(ms));
