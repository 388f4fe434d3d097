import { checkShape } from '../common/validate.js';
import { countsSlots } from '../contract/compile-policies.js';
import { escapeName } from '../stores/keys.js';
import { checkName, type Context, type NameFilter } from './context.js';
import { useIn } from './finds.js';
import type { KeyView, ProcessQueue } from './key-view.js';
import { countedOwner, whoseOf, type WhoseKey } from './owners.js';
import type { State } from './state.js';
import { MAX_QUEUES } from '../stores/counts/traffic.js';
import { newestOf } from './traffic.js';

/** The waiting requests and the slots of a key of a limiter in one process. */
export interface KeyQueueView extends WhoseKey, ProcessQueue {}

/** The result of `queues`. */
export interface QueuesView {
  /** The keys with most waiting requests first, then by the longest held slots. */
  readonly keys: readonly KeyQueueView[];
  /** The limiters of which a process has further keys. Each process writes 20 keys of a limiter. */
  readonly cut: readonly string[];
}

export async function queues({ state }: Context, options: NameFilter = {}): Promise<QueuesView> {
  checkShape('queues', options, ['name']);
  if (options.name !== undefined) checkName(options.name);
  const { rows, cut } = await readQueues(state, options.name);
  const keys = rows.flatMap(({ owner, ...queue }): KeyQueueView[] => {
    const whose = whoseOf(owner, undefined);
    return whose?.key === undefined ? [] : [{ ...whose, key: whose.key, ...queue }];
  });
  keys.sort((a, b) => b.waiting - a.waiting || b.heldMs - a.heldMs);
  return { keys, cut: [...cut] };
}

interface Queues {
  readonly rows: readonly (ProcessQueue & { readonly owner: string })[];
  readonly cut: ReadonlySet<string>;
}

/** The queues of one limiter or of all, by the owner text of the key. */
async function readQueues(state: State, wanted: string | undefined): Promise<Queues> {
  const recent = await state.counts?.read();
  const cut = new Set<string>();
  const rows: Queues['rows'][number][] = [];
  for (const { host = '', pid = 0, limiters } of recent ? newestOf(recent) : [])
    for (const { name, now, queues = {} } of limiters) {
      if (!now || (wanted !== undefined && name !== wanted)) continue;
      let [waiting, , , slots] = now;
      for (const [text, [ownWaiting, waitedMs, ownSlots, heldMs]] of Object.entries(queues)) {
        waiting -= ownWaiting;
        slots -= ownSlots;
        const owner = `${escapeName(name)}:${text}`;
        rows.push({ owner, host, pid, waiting: ownWaiting, waitedMs, slots: ownSlots, heldMs });
      }
      // A request with slots of several dimensions is counted for the key of each.
      if (waiting > 0 || slots > 0 || Object.keys(queues).length >= MAX_QUEUES) cut.add(name);
    }
  return { rows, cut };
}

/** Adds the use of slots to the answers to a key. @param isCounted whether all processes with a limiter count */
export async function withSlotUse(
  state: State,
  views: readonly KeyView[],
  isCounted: (name: string) => boolean,
): Promise<KeyView[]> {
  const text = state.counts?.text;
  const slotsOf = ({ policies }: KeyView) =>
    policies.find((verdict) => countsSlots(verdict.algorithm) && useIn(verdict).used > 0);
  if (!text || !views.some(slotsOf)) return [...views];
  // A user without permission for the counts still gets the verdicts.
  const found = await readQueues(state, undefined).catch(() => undefined);
  if (!found) return [...views];
  return views.map((view) => {
    const verdict = slotsOf(view);
    if (!verdict || view.within !== undefined) return view;
    const owner = countedOwner(view, text);
    const processes = found.rows.flatMap(({ owner: of, ...queue }) => (of === owner ? [queue] : []));
    const counted = processes.reduce((sum, { slots }) => sum + slots, 0);
    const isKnown = isCounted(view.name) && !found.cut.has(view.name);
    const uncounted = isKnown ? Math.max(0, useIn(verdict).used - counted) : null;
    return { ...view, slots: { processes, uncounted, freeAfterMs: verdict.resetAfterMs } };
  });
}
