import type { Command } from 'commander';
import { DEFAULT_SUBNET } from '../http/client-key.js';
import { usageError } from './errors.js';

export interface SubnetOption {
  readonly ipv6Subnet: string;
}

export function addSubnetOption(command: Command): Command {
  return command.option(
    '--ipv6-subnet <bits>',
    "of an IPv6 address the network of so many bits is the key, as in the limiter's option ipv6Subnet",
    String(DEFAULT_SUBNET),
  );
}

/** @throws CliError `USAGE` */
export function subnetOf({ ipv6Subnet }: SubnetOption): number {
  const bits = /^\d{1,3}$/.test(ipv6Subnet) ? Number(ipv6Subnet) : 0;
  if (bits < 1 || bits > 128) throw usageError('--ipv6-subnet: write a whole number from 1 to 128.');
  return bits;
}
