// The table that redis-cell and throttled publish: CL.THROTTLE with max_burst 4 (so a burst of 5), 1 per second.
// https://github.com/brandur/redis-cell, src/cell/mod.rs
export const redisCell = {
  policy: { algorithm: 'gcra', limit: 1, window: '1s', burst: 5 },
  /** Seconds, quantity, limited, remaining, reset after and retry after in seconds (-1: admitted, or never admitted). */
  rows: [
    [0, 6, 1, 5, 0, -1],
    [0, 1, 0, 4, 1, -1],
    [0, 1, 0, 3, 2, -1],
    [0, 1, 0, 2, 3, -1],
    [0, 1, 0, 1, 4, -1],
    [0, 1, 0, 0, 5, -1],
    [0, 1, 1, 0, 5, 1],
    [3.0, 1, 0, 2, 3.0, -1],
    [3.1, 1, 0, 1, 3.9, -1],
    [4.0, 1, 0, 1, 4.0, -1],
    [8.0, 1, 0, 4, 1.0, -1],
    [9.5, 1, 0, 4, 1.0, -1],
    [9.5, 0, 0, 4, 1, -1],
    [9.5, 2, 0, 2, 3, -1],
    [9.5, 5, 1, 2, 3, 3],
  ],
} as const;
