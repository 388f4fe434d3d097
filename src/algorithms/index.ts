import type { AlgorithmDefinition } from './algorithm.js';
import { concurrency } from './concurrency.js';
import { fixedWindow } from './fixed-window.js';
import { gcra } from './gcra.js';
import { slidingLog } from './sliding-log.js';
import { slidingWindow } from './sliding-window.js';

export { Column, type Params } from './algorithm.js';

/** The kernels. To add one: a `.ts` and a `.lua` page of its name, a line here, a line in `policy.ts`, vectors. */
export const algorithms: Readonly<Record<Kernel, AlgorithmDefinition>> = {
  'fixed-window': fixedWindow,
  'sliding-window': slidingWindow,
  'sliding-log': slidingLog,
  gcra,
  concurrency,
};

export type Kernel = 'fixed-window' | 'sliding-window' | 'sliding-log' | 'gcra' | 'concurrency';
