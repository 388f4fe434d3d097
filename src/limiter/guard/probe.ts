import { lazy } from '../../common/lazy.js';
import { compilePolicies } from '../../contract/compile-policies.js';
import type { Warn } from '../../common/warnings.js';
import { PROBE_SCOPE } from '../../contract/health.js';
import { ONE_UNIT } from '../../contract/costs.js';
import { lookOf, newCall, type Keys, type Query, type Store, type Subject } from '../../contract/store.js';
import { variant } from '../../contract/variant.js';
import { MAX_KEY_TRIES, MAX_SILENCE_MS, PROBE_KEYS } from './guard-options.js';

const plain = lazy(() =>
  compilePolicies('policies', [{ name: 'probe', algorithm: 'fixed-window', limit: 1e6, window: '1s' }]),
);

/** The subject to probe with until a call has failed. */
export function idleProbe(timeout: number): Subject {
  return { set: { name: PROBE_SCOPE, policies: plain(), timeout }, key: 'idle' };
}

let probes = 0;

/**
 * The queries that prove that a server works again for a failed subject. The first query charges a key of the probes by the same policies,
 * because a server without memory, or a user without permission to write, can still read. The second query reads the failed key, because
 * the user may lack permission for the key.
 *
 * @param failed the subject of the server's last failure. If undefined, the second query also reads a key of the probes
 * @param idle the subject to use without a failed subject
 * @param server undefined for any server
 * @returns undefined if no key of the probes is on the server
 */
export function probesOf(
  store: Store,
  failed: Subject | undefined,
  idle: Subject,
  server: string | undefined,
): [write: Query, read: Query] | undefined {
  // A question about every key of a limiter has no policies, and cannot prove anything.
  const decided = failed && failed.set.policies.length > 0 ? failed : undefined;
  const { set, key } = decided ?? idle;
  const probeSet = variant(set, 'probe', () => ({ name: PROBE_SCOPE, ban: undefined }));
  // A cluster may have moved the key to another server, whose answer would prove nothing.
  const isThere = decided && (server === undefined || store.serverOf?.(decided) === server);
  const first = (probes++ % PROBE_KEYS) * MAX_KEY_TRIES;
  for (let i = 0; i < MAX_KEY_TRIES; i++) {
    const probe = String(first + i);
    const keys: Keys = typeof key === 'string' ? probe : key.map(() => probe);
    const write = { set: probeSet, key: keys, cost: 1, peek: false, lease: `probe${probe}`, call: newCall() };
    if (server === undefined || store.serverOf?.(write) === server) {
      const read = isThere ? { set, key } : { set: probeSet, key: keys };
      return [write, lookOf({ ...read, call: newCall() }, ONE_UNIT)];
    }
  }
  return undefined;
}

/**
 * Resolves when a probe has also ended for the store's client. Until then no further call may be sent, because a client that closes idle
 * connections would count the write as activity.
 */
export async function quiet(ended: Promise<unknown>, warn: Warn): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      warn(
        'HEADGATE_SILENT_CONNECTION',
        `The store has not answered for ${MAX_SILENCE_MS / 1000} s, on a connection that its client considers alive. Either the server hangs, or ` +
          'the connection is dead. If it is dead, this process limits by itself until the client notices, which takes minutes. ' +
          'Set a socketTimeout on the client.',
      );
      resolve();
    }, MAX_SILENCE_MS).unref();
  });
  await Promise.race([ended, silence]);
  clearTimeout(timer);
}
