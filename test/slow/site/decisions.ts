// The limiter of Node on a trace, to compare the playground with.
import { createLimiter, memoryStore, type Decision } from 'headgate';
import type { TracedRequest } from '../../../scripts/docs/playground/trace.js';

export const START = Date.UTC(2026, 0, 1);

/** Sends a trace to a limiter of Node, one request after the other, without any code of the playground. */
export async function decisionsOf(
  policies: readonly string[],
  trace: readonly TracedRequest[],
  options: { ban?: object; keyOf?: (client: string) => object; takes?: number } = {},
): Promise<Decision[]> {
  let now = START;
  const limiter = createLimiter({
    ...{ name: 'playground', policies, warnings: false, store: memoryStore({ clock: () => now }) },
    ...(options.ban && { ban: options.ban }),
  });
  const held: { until: number; decision: Decision }[] = [];
  const decisions: Decision[] = [];
  for (const { at, client } of trace) {
    for (const slot of held.filter(({ until }) => until <= START + at)) {
      now = slot.until;
      await slot.decision.release();
      held.splice(held.indexOf(slot), 1);
    }
    now = START + at;
    const decision = await limiter.consume((options.keyOf?.(client) ?? client) as string);
    if (decision.allowed && options.takes) held.push({ until: now + options.takes, decision });
    decisions.push(decision);
  }
  await limiter.close();
  return decisions;
}
