import { performance } from '../common/real-time.js';
import { storeChannel, type StoreMessage } from '../contract/diagnostics.js';
import type { Reply } from '../contract/store.js';

/** Publishes the store's time for an answer. */
export function observe(limiter: string, reply: Promise<Reply>): void {
  const asked = performance.now();
  const load = performance.eventLoopUtilization();
  const publish = (degraded: boolean, error?: unknown): void => {
    const message: StoreMessage = {
      limiter,
      durationMs: performance.now() - asked,
      busyMs: performance.eventLoopUtilization(load).active,
      degraded,
      ...(error !== undefined && { error }),
    };
    storeChannel.publish(message);
  };
  reply.then(
    ({ degraded, error }) => publish(degraded !== undefined, error),
    (error: unknown) => publish(false, error),
  );
}
