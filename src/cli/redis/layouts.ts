import { algorithms, type Kernel } from '../../algorithms/index.js';

const KERNELS = new Map(
  Object.entries(algorithms).map(([kernel, { tag }]) => [tag, kernel as Kernel] as const),
);

/** The algorithm that reads the state of this id; undefined for a layout of another version. */
export function kernelOf(id: string): Kernel | undefined {
  return KERNELS.get(/^\w+/.exec(id)![0]);
}

/** The name of the policy whose state has this id. */
export function policyNameOf(id: string): string {
  const colon = id.indexOf(':');
  return colon === -1 ? 'default' : id.slice(colon + 1);
}

/** What the state of a ban says beside the ban, as `algorithms/ban.lua` writes it. */
export function readBan(value: string | null, now: number): { denials: number; lastBanMs: number } {
  const numbers = /^\d+( \d+){4}$/.test(value ?? '') ? value!.split(' ').map(Number) : [];
  const [denials = 0, counted = 0, , , lastBanMs = 0] = numbers;
  return { denials: counted > now ? denials : 0, lastBanMs };
}
