// Counts the bytes that a decision in memory allocates, after V8 has compiled it, and those that a limiter keeps. Runs with node --expose-gc and flags that put the compiler
// into this thread and all young objects into one space, so that neither the machine's load nor a collection changes the counts.
import { createLimiter, type CreateLimiterOptions, type Key, type Limiter } from 'headgate';

const WARM_UP = 60_000;
/** Decisions of a short and a long run. Their difference is free of what the measurement itself allocates. */
const SHORT = 2000;
const LONG = 6000;
const MEASUREMENTS = 7;
const LIMITERS = 1000;

const hour = { limit: 1e9, window: '1h' };

/** One limiter, or several in turns. */
const limitersOf = (options: CreateLimiterOptions, count = 1): Limiter[] =>
  Array.from({ length: count }, () => createLimiter({ warnings: false, ...options }));

const subjects: Readonly<Record<string, readonly [Limiter[], Key]>> = {
  'one policy': [limitersOf(hour), 'ada'],
  'a hundred limiters in turns': [limitersOf(hour, 100), 'ada'],
  'two policies': [
    limitersOf({
      policies: [
        { name: 'a', ...hour },
        { name: 'b', ...hour },
      ],
    }),
    'ada',
  ],
  'a shared limit': [
    limitersOf({ policies: [{ ...hour, share: 'tenant' }] }),
    { key: 'all', tenant: 'acme' },
  ],
};

function bytesOf(limiters: readonly Limiter[], key: Key): number {
  const decide = (decisions: number): void => {
    for (let i = 0; i < decisions; i++) void limiters[i % limiters.length]!.decide(key);
  };
  decide(WARM_UP);
  const allocatedBy = (decisions: number): number => {
    globalThis.gc!();
    const before = process.memoryUsage().heapUsed;
    decide(decisions);
    return process.memoryUsage().heapUsed - before;
  };
  const measure = (): number => (allocatedBy(LONG) - allocatedBy(SHORT)) / (LONG - SHORT);
  // V8 may still compile or give memory back during a measurement.
  return Array.from({ length: MEASUREMENTS }, measure).sort((a, b) => a - b)[MEASUREMENTS >> 1]!;
}

/** The bytes that a limiter keeps after its first decision. */
function bytesOfLimiter(): number {
  const kept: Limiter[] = [];
  const make = (count: number): void => {
    for (const limiter of limitersOf(hour, count)) {
      void limiter.decide('ada');
      kept.push(limiter);
    }
    globalThis.gc!();
  };
  make(100);
  const before = process.memoryUsage().heapUsed;
  make(LIMITERS);
  return (process.memoryUsage().heapUsed - before) / LIMITERS;
}

const counts = Object.fromEntries(
  Object.entries(subjects).map(([name, [limiters, key]]) => [name, Math.round(bytesOf(limiters, key))]),
);
process.send!({ ...counts, 'a limiter': Math.round(bytesOfLimiter()) });
