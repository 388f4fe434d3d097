import { algorithms, type Kernel } from '../../algorithms/index.js';

const KERNELS = new Map(
  Object.entries(algorithms).map(([kernel, { tag }]) => [tag, kernel as Kernel] as const),
);

/** The algorithm of the state with this id. Undefined: the layout belongs to another version. */
export function kernelOf(id: string): Kernel | undefined {
  return KERNELS.get(/^\w+/.exec(id)![0]);
}

/** The name of the policy of the state with this id. */
export function policyNameOf(id: string): string {
  const colon = id.indexOf(':');
  return colon === -1 ? 'default' : id.slice(colon + 1);
}

/** The other values of a ban's state, as `algorithms/ban.lua` writes them. */
export function readBan(value: string | null, now: number): { denials: number; lastBanMs: number } {
  const numbers = /^\d+( \d+){4}$/.test(value ?? '') ? value!.split(' ').map(Number) : [];
  const [denials = 0, counted = 0, , , lastBanMs = 0] = numbers;
  return { denials: counted > now ? denials : 0, lastBanMs };
}
