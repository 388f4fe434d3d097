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
