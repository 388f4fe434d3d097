import { DOCS } from '../../common/errors.js';
import { printable } from '../../common/printable.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { entryInForce, isDamaged, parseEntryNote, type OverrideEntry } from './contract/records.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { tenantDimension, tenantsOf, visiblePolicies } from '../shares/contract/shares.js';
import { ALL_KEYS, escapeName, kindOfHash, parseOwnerText, type StateKey } from '../../stores/keys.js';
import { plainWords } from '../../stores/store-error.js';
import { overrideIndexKey, recordKey } from './record-keys.js';

/** The most overrides that are read, and the most names in a message. */
const MAX_READ_OVERRIDES = 1000;
const MAX_NAMES = 10;

/** The policies of a limiter by tier, with `''` for the policies without a tier. */
type Sets = ReadonlyMap<string, readonly CompiledPolicy[]>;

/** A limiter with overrides, and the policies of each configuration. Processes differ during a deployment. */
export interface LiveLimiter {
  readonly name: string;
  readonly configured: readonly Sets[];
}

interface OverrideFinding {
  readonly level: 'ok' | 'warning';
  readonly code: 'overrides';
  readonly message: string;
}

/** Finds overrides without effect, because the limiter has other policies by now. @param send sends a command about a key to its server */
export async function findEffectless(
  send: (command: string, key: string, ...args: string[]) => Promise<unknown>,
  prefix: string,
  live: readonly LiveLimiter[],
): Promise<OverrideFinding> {
  const warning = (message: string): OverrideFinding => ({ level: 'warning', code: 'overrides', message });
  try {
    const now = String(Date.now());
    const range = [now, '+inf', 'LIMIT', '0', String(MAX_READ_OVERRIDES)];
    const owners = await send('ZRANGEBYSCORE', overrideIndexKey(prefix), ...range);
    const idle: string[] = [];
    for (const owner of owners as string[]) {
      const limiter = live.find(({ name }) => owner.startsWith(`${escapeName(name)}:`));
      const record: unknown = limiter && (await send('GET', recordKey(prefix, owner)));
      const entry = entryInForce(record, Date.now());
      const key = owner.endsWith(`:${ALL_KEYS}`) ? undefined : parseOwnerText(owner);
      if (!limiter || (!entry && !isDamaged(record))) continue;
      const { name, configured } = limiter;
      const effects = configured.map(
        (sets) =>
          entry !== undefined &&
          !isDamaged(record) &&
          isEffective(entry, sets, key && dimensionIn(sets, key)),
      );
      if (effects.every((isInForce) => isInForce)) continue;
      const where = effects.includes(true) ? ' (in a part of its processes)' : '';
      idle.push(`${printable(name)}: ${key ? shownKey(key) : 'all keys'}${where}`);
    }
    if (idle.length === 0)
      return { level: 'ok', code: 'overrides', message: 'Every override fits the policies of its limiter.' };
    const more = idle.length > MAX_NAMES ? `, and ${idle.length - MAX_NAMES} more` : '';
    return warning(
      `Overrides without full effect, because they cannot be read or name policies that the limiter no longer has: ${idle.slice(0, MAX_NAMES).join(', ')}${more}. ` +
        `Remove or replace them: see ${DOCS}/overrides.md#what-to-know.`,
    );
  } catch (error) {
    const words = error instanceof Error ? plainWords(error.message) : String(error);
    return warning(`The overrides cannot be read: ${words}`);
  }
}

type Place = Pick<StateKey, 'by' | 'key' | 'slot'>;

/** The dimension of a key. A key within the key of a shared limit is a tenant, unless the limiter has slots. */
function dimensionIn(sets: Sets, { by, slot }: Place): string {
  const tenants = slot && tenantDimension(slot.by, by);
  const isTenant =
    tenants !== undefined &&
    [...sets.values()].some((set) => set.some((policy) => tenantsOf(policy) === tenants));
  return isTenant ? tenants : by;
}

/** A key for people, with its dimension, and with the key within which it is counted. */
function shownKey({ by, key, slot }: Place): string {
  const text = (own: StateKey['key'] = '-'): string =>
    printable(typeof own === 'string' ? own : `${kindOfHash(own.hash)}:${own.hash}`);
  return [
    ...(by === DEFAULT_DIMENSION ? [] : [by]),
    text(key),
    ...(slot ? [`in ${slot.by} ${text(slot.key)}`] : []),
  ].join(' ');
}

/**
 * Whether an entry names only policies, or a tier, of a limiter. Otherwise the entry, or a part of it, has no effect.
 *
 * @param sets the policies by tier, with `''` for the policies without a tier
 * @param by the dimension of the key, or of the tenant; each tier must have a policy by it. Undefined if the override is of all keys
 */
function isEffective({ revision, limits, json }: OverrideEntry, sets: Sets, by: string | undefined): boolean {
  const policies = [...sets.values()].flat();
  const { change } = parseEntryNote(json) ?? {};
  const fields = Object.keys(Object(change) as object);
  const names = new Set(policies.map(({ name }) => name));
  if (typeof change !== 'string' && fields.some((name) => names.has(name)))
    return fields.every((name) => names.has(name));
  if (revision === '' && policies.some(({ id }) => limits.has(id))) return true;
  const { tier } = Object(change) as { tier?: string };
  const isRead = [...sets.values()].every(
    (set) => by === undefined || set.some((policy) => policy.by === by),
  );
  if (tier !== undefined) return sets.has(tier) && isRead;
  const changed = [...sets.values()].map((set) =>
    visiblePolicies(set).filter((policy) => by === undefined || policy.by === by || tenantsOf(policy) === by),
  );
  return change !== undefined && changed.flat().length > 0 && changed.every((some) => some.length <= 1);
}
