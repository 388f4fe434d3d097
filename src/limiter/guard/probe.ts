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

/** Few keys, so that probes leave little behind; more than one, so that no denial is remembered from the last probe. */
const KEYS = 16;

/** How many keys are tried to find one on a certain server. It is enough for a server with a hundredth of the cluster. */
const TRIES = 1000;

/** How long a call may stay unanswered before it is given up, ms. It is longer than any useful timeout of a client. */
const SILENCE = 10_000;

const PLAIN = compilePolicies('policies', [
  { name: 'probe', algorithm: 'fixed-window', limit: 1e6, window: '1s' },
]);

/** What stands for a failure while nothing has failed. */
export function idleProbe(timeout: number): Subject {
  return { set: { name: 'headgate-probe', policies: PLAIN, ban: undefined, timeout }, key: 'idle' };
}

const sets = new WeakMap<PolicySet, PolicySet>();
let probes = 0;

/**
 * The queries that prove that a server can do again what failed. The first one charges a key of the probes by the policies that failed: a
 * server without memory, or a user without permission to write, can still read. The second one reads the key that failed, because the
 * user may lack permission for it. Undefined: no key of the probes is on that server.
 *
 * @param failed what the server failed to do; undefined: nothing yet, so a key of the probes is read
 * @param idle what stands for it then
 * @param server undefined: any server
 */
export function probesOf(
  store: Store,
  failed: Subject | undefined,
  idle: Subject,
  server: string | undefined,
): [write: Query, read: Query] | undefined {
  // What was asked about all keys of a limiter has no policies that could prove anything.
  const decided = failed && failed.set.policies.length > 0 ? failed : undefined;
  const { set, key } = decided ?? idle;
  let own = sets.get(set);
  if (!own) sets.set(set, (own = { ...set, name: 'headgate-probe', ban: undefined }));
  // A cluster may have moved the key to another server, whose answer would say nothing of this one.
  const isThere = decided && (server === undefined || store.serverOf?.(decided) === server);
  const first = (probes++ % KEYS) * TRIES;
  for (let i = 0; i < TRIES; i++) {
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
 * Resolves when a probe has also ended for the store's client. Until then nothing more may be written: a client that closes idle
 * connections would count its own writes as activity.
 */
export async function quiet(answer: Promise<unknown>, warn: Warn): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const isSilent = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(true), SILENCE).unref();
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
    `The store has not answered for ${SILENCE / 1000} s, on a connection that its client considers alive. Either the server hangs, or ` +
      'the connection is dead. A dead one makes this process limit for itself until the client notices, which takes minutes. ' +
      'Give the client a socketTimeout.',
  );
}
