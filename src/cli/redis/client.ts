import type { RedisClient } from '../../stores/redis/clients/clients.js';
import type { Address } from './address.js';

/** One server that holds keys. */
export interface Node {
  /** Sends one command that concerns this server alone. */
  send(command: readonly string[]): Promise<unknown>;
}

/** What the commands need of a client beyond what the store does with it. */
export interface Connection {
  readonly client: RedisClient;
  /** The servers that hold keys: of a cluster its primaries. */
  nodes(): Promise<readonly Node[]>;
  /** Runs a command on one key, which is its first argument, where that key is. */
  call(command: string, key: string, ...args: string[]): Promise<unknown>;
  close(): void;
}

/** What makes connections with one client package, which it is given as it was loaded. */
export interface Opener {
  open(module: unknown, target: Target): Promise<Connection>;
  openCluster(module: unknown, target: Target): Promise<Connection>;
}

/** How to connect. */
export interface Target {
  readonly address: Address;
  readonly cluster: boolean;
  /** The name by which sentinels know the primary; `address` is then a sentinel's. */
  readonly sentinel: string | undefined;
  /** How long to wait for an answer, ms. */
  readonly timeout: number;
}
