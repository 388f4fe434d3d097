// A server that is farther away: data in both directions is delayed.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** The length of a pause, ms. It is shorter than Node's timers, which count whole milliseconds. */
const PAUSE_MS = 0.05;

interface Parcel {
  readonly due: number;
  readonly to: Socket;
  readonly data: Buffer;
}

export async function start({ port, ms }: { port: number; ms: number }) {
  const bed = new Int32Array(new SharedArrayBuffer(4));
  const underWay: Parcel[] = [];
  let isRunning = false;

  function deliver(): void {
    const now = performance.now();
    while (underWay.length > 0 && underWay[0]!.due <= now) {
      const { to, data } = underWay.shift()!;
      if (!to.destroyed) to.write(data);
    }
    isRunning = underWay.length > 0;
    if (!isRunning) return;
    Atomics.wait(bed, 0, 0, Math.max(0, Math.min(PAUSE_MS, underWay[0]!.due - now)));
    setImmediate(deliver);
  }

  function pass(from: Socket, to: Socket): void {
    from.setNoDelay(true);
    from.on('data', (data) => {
      underWay.push({ due: performance.now() + ms, to, data });
      if (!isRunning) {
        isRunning = true;
        setImmediate(deliver);
      }
    });
    from.on('error', () => {}).on('close', () => to.destroy());
  }

  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    pass(near, far);
    pass(far, near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: () => (server.address() as AddressInfo).port };
}
