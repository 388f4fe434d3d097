import type { RedisClient } from '../../stores/redis/clients/clients.js';
import type { Address } from './address.js';

/** One server that has keys. */
export interface Node {
  /** Sends one command to exactly this server. */
  send(command: readonly string[]): Promise<unknown>;
}

/** What the commands need of a client in addition to what the store needs. */
export interface Connection {
  readonly client: RedisClient;
  /** The servers that have keys. For a cluster: its primaries. */
  nodes(): Promise<readonly Node[]>;
  /** Runs a command on the server of one key, which is the command's first argument. */
  call(command: string, key: string, ...args: string[]): Promise<unknown>;
  close(): void;
}

/** Opens connections with one client package, which it receives after it was loaded. */
export interface Opener {
  open(module: unknown, target: Target): Promise<Connection>;
  openCluster(module: unknown, target: Target): Promise<Connection>;
}

/** How to connect. */
export interface Target {
  readonly address: Address;
  readonly cluster: boolean;
  /** The name by which sentinels know the primary. `address` is then a sentinel's. */
  readonly sentinel: string | undefined;
  /** How long to wait for an answer, ms. */
  readonly timeout: number;
}
