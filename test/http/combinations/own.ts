// The timers and warnings of one piece of work. A failed test of the same process may have left a client that connects again and again, whose
// timers and warnings would otherwise count as those of a site.
import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Own {
  readonly warnings: readonly string[];
  /** Waits until no timer keeps the process alive, at most so many ms. @returns the timers that are left */
  readonly timersAfter: (most: number) => Promise<number>;
}

const works = new AsyncLocalStorage<Own>();

/** Runs work, and notes the timers and warnings that come from its calls. */
export async function watched<T>(work: (own: Own) => Promise<T>): Promise<T> {
  const timers = new Map<number, NodeJS.Timeout>();
  const warnings: string[] = [];
  const left = () => [...timers.values()].filter((timer) => timer.hasRef()).length;
  const own: Own = {
    warnings,
    async timersAfter(most) {
      // The wait's own timers do not count.
      for (let waited = 0; left() > 0 && waited < most; waited++) await works.exit(() => sleep(1));
      return left();
    },
  };
  const hook = createHook({
    init(id, type, _trigger, resource) {
      if (type === 'Timeout' && works.getStore() === own) timers.set(id, resource as NodeJS.Timeout);
    },
    destroy: (id) => void timers.delete(id),
  });
  const note = (warning: Error) => {
    if (works.getStore() === own) warnings.push(String(warning));
  };
  process.on('warning', note);
  hook.enable();
  try {
    return await works.run(own, () => work(own));
  } finally {
    hook.disable();
    process.off('warning', note);
  }
}
