import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A proxy between client and server that breaks connections as networks do. */
export class Proxy {
  readonly #target: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #cutNext = false;
  /** Connections that are dead without a sign to either side. */
  readonly #dead = new Set<Socket>();
  /** Replies that are held back, or `undefined` if replies pass. */
  #held: (() => void)[] | undefined;
  port = 0;
  /** The number of cut replies. */
  cuts = 0;
  /** The share of replies to cut, together with the connection. */
  lossRate = 0;
  /** The delay in each direction, ms. */
  delay = 0;

  constructor(target: number) {
    this.#target = target;
  }

  /** Listens, on the same port as before. */
  async open(): Promise<void> {
    this.#server = createServer((client) => this.#join(client)).listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = (this.#server.address() as AddressInfo).port;
  }

  /** Ends every connection and refuses new connections. */
  async close(): Promise<void> {
    const closed = this.#server && once(this.#server, 'close');
    this.#server?.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Cuts the next reply in the middle, and closes its connection. */
  cutNextReply(): void {
    this.#cutNext = true;
  }

  /** Holds all replies back, until `release`. The server goes on. */
  hold(): void {
    this.#held ??= [];
  }

  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const pass of held) pass();
  }

  /** From now on, the present connections lose all data. They stay open, and new connections work. */
  swallow(): void {
    for (const socket of this.#sockets) this.#dead.add(socket);
  }

  #later(pass: () => void): void {
    if (this.delay > 0) setTimeout(pass, this.delay);
    else pass();
  }

  #join(client: Socket): void {
    const server = connect(this.#target, '127.0.0.1');
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.on('error', () => {});
      from.on('close', () => {
        this.#sockets.delete(from);
        this.#dead.delete(from);
        to.destroy();
      });
    }
    client.on('data', (data) => {
      if (!this.#dead.has(client)) this.#later(() => server.write(data));
    });
    server.on('data', (data) => {
      if (this.#dead.has(server)) return;
      if (!this.#cutNext && Math.random() >= this.lossRate) {
        const pass = (): void => void client.write(data);
        if (this.#held) this.#held.push(pass);
        else this.#later(pass);
        return;
      }
      this.#cutNext = false;
      this.cuts++;
      client.end(data.subarray(0, data.length / 2));
      server.destroy();
    });
  }
}
