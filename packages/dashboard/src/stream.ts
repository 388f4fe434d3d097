import type { Poller, Update } from './poller.js';

/** A stream ends after this time, and the page connects again, so that a session that has ended stops reading. */
const MAX_STREAM_MS = 60_000;

/** A comment in this interval keeps proxies from closing a quiet stream. */
const HEARTBEAT_MS = 15_000;

/** The most bytes that wait for a slow reader. Beyond them the stream ends, and the page connects again. */
const MAX_WAITING_BYTES = 4_000_000;

/** Server-sent events with the changes of the state. @param first is added to the first event */
export function eventStream(poller: Poller, first: object): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let stop = (): void => {};
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const end = (): void => {
          stop();
          try {
            controller.close();
          } catch {
            // The reader has gone.
          }
        };
        const write = (text: string): void => {
          if ((controller.desiredSize ?? 0) < -MAX_WAITING_BYTES) return end();
          controller.enqueue(encoder.encode(text));
        };
        const send = (update: Update): void =>
          write(`data: ${JSON.stringify(update.full ? { ...update, ...first } : update)}\n\n`);
        const beat = setInterval(() => write(':\n\n'), HEARTBEAT_MS);
        const last = setTimeout(() => {
          write('event: end\ndata:\n\n');
          end();
        }, MAX_STREAM_MS);
        beat.unref();
        last.unref();
        const unwatch = poller.watch(send);
        stop = () => {
          clearInterval(beat);
          clearTimeout(last);
          unwatch();
        };
        // Sent at once, so that the browser knows that the stream is open, and after which time to return.
        write('retry: 1000\n\n');
      },
      cancel: () => stop(),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 1 }),
  );
}
