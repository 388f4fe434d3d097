import { compilePolicies } from '../../contract/compile-policies.js';
import type { Warn } from '../../common/warnings.js';
import type { PolicySet, Query, Store } from '../../contract/store.js';

/** A probe is a call that writes, like the calls that it stands for: a server without memory can still read. */
const POLICIES = compilePolicies('policies', [
  { name: 'probe', algorithm: 'fixed-window', limit: 1e6, window: '1s' },
]);

/** How many keys are tried to find one on a certain server. It is enough for a server with a hundredth of the cluster. */
const KEYS = 1000;

/** How long a call may stay unanswered before it is given up, ms. It is longer than any useful timeout of a client. */
const SILENCE = 10_000;

export function probeSet(timeout: number): PolicySet {
  return { name: 'headgate-probe', policies: POLICIES, ban: undefined, timeout };
}

/** A query that a certain server answers. Undefined: none of the tried keys is on it. @param server undefined: any server */
export function probeOf(store: Store, set: PolicySet, server: string | undefined): Query | undefined {
  for (let i = 0; i < KEYS; i++) {
    const key = String(Math.floor(Math.random() * 1e9));
    const query: Query = { set, key, cost: 1, peek: false, lease: '', until: 0 };
    if (server === undefined || store.serverOf?.(query) === server) return query;
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
