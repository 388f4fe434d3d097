import { compilePolicies } from '../../contract/compile-policies.js';
import type { Warn } from '../../common/warnings.js';
import {
  newCall,
  type Keys,
  type PolicySet,
  type Query,
  type Store,
  type Subject,
} from '../../contract/store.js';

/** The number of keys for probes: few, so that little state remains, and more than one, so that the last probe's denial is not remembered. */
const PROBE_KEYS = 16;

/** The keys that are tried to find one on a certain server, enough for a server with a hundredth of the cluster. */
const MAX_KEY_TRIES = 1000;

/** The time after which an unanswered call is given up, ms. It exceeds any useful timeout of a client. */
const MAX_SILENCE_MS = 10_000;

const PLAIN = compilePolicies('policies', [
  { name: 'probe', algorithm: 'fixed-window', limit: 1e6, window: '1s' },
]);

/** The subject to probe with until a call has failed. */
export function idleProbe(timeout: number): Subject {
  return { set: { name: 'headgate-probe', policies: PLAIN, ban: undefined, timeout }, key: 'idle' };
}

const sets = new WeakMap<PolicySet, PolicySet>();
let probes = 0;

/**
 * The queries that prove that a server works again for the subject that failed. The first one charges a key of the probes by the same
 * policies, because a server without memory, or a user without permission to write, can still read. The second one reads the key that
 * failed, because the user may lack permission for it.
 *
 * @param failed the subject that failed on the server, or undefined if none has, so that a key of the probes is read
 * @param idle the subject to use in that case
 * @param server undefined for any server
 * @returns undefined if no key of the probes is on that server
 */
export function probesOf(
  store: Store,
  failed: Subject | undefined,
  idle: Subject,
  server: string | undefined,
): [write: Query, read: Query] | undefined {
  // A question about all keys of a limiter has no policies, and cannot prove anything.
  const decided = failed && failed.set.policies.length > 0 ? failed : undefined;
  const { set, key } = decided ?? idle;
  let own = sets.get(set);
  if (!own) sets.set(set, (own = { ...set, name: 'headgate-probe', ban: undefined }));
  // A cluster may have moved the key to another server, whose answer would prove nothing about this one.
  const isThere = decided && (server === undefined || store.serverOf?.(decided) === server);
  const first = (probes++ % PROBE_KEYS) * MAX_KEY_TRIES;
  for (let i = 0; i < MAX_KEY_TRIES; i++) {
    const probe = String(first + i);
    const keys: Keys = typeof key === 'string' ? probe : key.map(() => probe);
    const write = { set: own, key: keys, cost: 1, peek: false, lease: `probe${probe}`, call: newCall() };
    if (server === undefined || store.serverOf?.(write) === server) {
      const read = isThere ? { set, key } : { set: own, key: keys };
      return [write, { ...read, cost: 1, peek: true, lease: '', call: newCall() }];
    }
  }
  return undefined;
}

/**
 * Resolves when a probe has also ended for the store's client. Until then no other call may be sent, because a client that closes idle
 * connections would count its own writes as activity.
 */
export async function quiet(answer: Promise<unknown>, warn: Warn): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const isSilent = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(true), MAX_SILENCE_MS).unref();
  });
  const isOver = answer.then(
    () => false,
    () => false,
  );
  if (await Promise.race([isOver, isSilent])) warnOfSilence(warn);
  clearTimeout(timer);
}

function warnOfSilence(warn: Warn): void {
  warn(
    'HEADGATE_SILENT_CONNECTION',
    `The store has not answered for ${MAX_SILENCE_MS / 1000} s, on a connection that its client considers alive. Either the server hangs, or ` +
      'the connection is dead. If it is dead, this process limits by itself until the client notices, which takes minutes. ' +
      'Set a socketTimeout on the client.',
  );
}
