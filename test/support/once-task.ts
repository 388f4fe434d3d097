// The requests of once-child.ts.
export const IDS = 2000;
export const KEYS = 20;
export const COST = 5;
/** The units that a settled request keeps. */
export const SETTLED = 3;
export const OPTIONS = {
  name: 'once',
  algorithm: 'fixed-window',
  limit: 1e6,
  window: '30d',
  // Each process repeats each request until it has an answer.
  repeats: 1000,
} as const;
export const keyOf = (id: number): string => `key ${id % KEYS}`;
/** Whether the processes that send a request also settle the request. */
export const isSettled = (id: number): boolean => Math.floor(id / KEYS) % 4 === 0;
