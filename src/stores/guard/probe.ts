import { compilePolicies } from '../../contract/compile-policies.js';
import type { Warn } from '../../common/warnings.js';
import type { PolicySet, Query, Store } from '../../contract/store.js';

/** Whether a store is up is asked by a call that writes, as do those that it is to answer: a full server still reads. */
const POLICIES = compilePolicies('policies', [
  { name: 'probe', algorithm: 'fixed-window', limit: 1e6, window: '1s' },
]);

/** So many keys are tried for one that is on a certain server: enough for one that has a hundredth of a cluster. */
const KEYS = 1000;

/** After so long, ms, a call that is not answered is given up: longer than any time-out of a client that is of use. */
const SILENCE = 10_000;

export function probeSet(timeout: number): PolicySet {
  return { name: 'headgate-probe', policies: POLICIES, ban: undefined, timeout };
}

/** A question that a server answers, undefined if none of many keys is on it. @param server undefined: any */
export function probeOf(store: Store, set: PolicySet, server: string | undefined): Query | undefined {
  for (let i = 0; i < KEYS; i++) {
    const key = String(Math.floor(Math.random() * 1e9));
    const query: Query = { set, key, cost: 1, peek: false, lease: '', until: 0 };
    if (server === undefined || store.serverOf?.(query) === server) return query;
  }
  return undefined;
}

/**
 * Resolves when a probe is over for the store's client, too. As long as it is not, nothing more is to be written: a client that closes
 * a connection on which nothing happens takes what it writes for something that does.
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
    `The store has not answered for ${SILENCE / 1000} s, on a connection that its client takes for alive. Either the server hangs, or ` +
      'the connection is dead: then limits hold for this process alone until the client notices, which takes minutes. Give the ' +
      'client a socketTimeout.',
  );
}
