// A client that sends a drawn request over a real socket, and may leave.
import { Agent, request } from 'node:http';
import type { Ask } from './draw.js';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
}

export interface Client {
  /** @returns the answer, or undefined if the client left before it was complete */
  send(n: number, ask: Ask): Promise<Answer | undefined>;
  /** The handler has the request. */
  reached(n: number): void;
  close(): void;
}

export function headersOf(n: number, ask: Ask): Record<string, string> {
  const { key, account, org, cost, costs, tier, id, status, takes, leaves } = ask;
  const given = { n, key, account, org, cost, costs: costs?.join(), tier, id, status, takes };
  const isLong = leaves === 'answered';
  return Object.fromEntries(
    Object.entries({ ...given, ...(isLong ? { long: 1 } : {}) }).flatMap(([name, value]) =>
      value === undefined ? [] : [[`x-${name}`, String(value)]],
    ),
  );
}

export function clientOf(port: number): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
  const leavers = new Map<number, () => void>();
  return {
    send: (n, ask) =>
      new Promise((resolve, reject) => {
        const outgoing = request({ port, host: '127.0.0.1', agent, headers: headersOf(n, ask) });
        let hasLeft = false;
        const leave = () => {
          hasLeft = true;
          if (ask.how === 'reset') outgoing.socket?.resetAndDestroy();
          outgoing.destroy();
          resolve(undefined);
        };
        outgoing.on('error', (error) => (hasLeft ? undefined : reject(error)));
        outgoing.on('response', (incoming) => {
          let text = '';
          incoming.setEncoding('utf8').on('data', (chunk: string) => {
            text += chunk;
            if (ask.leaves === 'answered' && text.startsWith('begun')) leave();
          });
          incoming.on('error', (error) => (hasLeft ? undefined : reject(error)));
          incoming.on('end', () => {
            const { statusCode: status = 0, headers } = incoming;
            resolve({ status, headers: headers as Answer['headers'], text });
          });
        });
        outgoing.end();
        if (ask.leaves === 'early') outgoing.once('finish', () => setImmediate(leave));
        if (ask.leaves === 'reached') leavers.set(n, leave);
      }),
    reached: (n) => leavers.get(n)?.(),
    close: () => agent.destroy(),
  };
}
