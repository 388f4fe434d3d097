// Law 15: collections that grow with clients' requests are bounded, and no entry outlives its purpose.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'chai';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import type { Report } from './resources/child.js';
import { servers } from '../support/shared-servers.js';

/**
 * The largest number of entries in a Map or Set of each file. The child reaches each bound. A file without a bound has few entries,
 * whatever clients do. List a new collection here with its bound, and drive the collection past its bound in the child.
 */
const BOUNDS: Readonly<Record<string, number>> = {
  'features/bans/ban.ts': 1000, // maxKeys of the store
  'algorithms/concurrency.ts': 700, // the policy's limit
  'replay/addresses.ts': 10_000,
  'compat/express-rate-limit/quota.ts': 100_000,
  'contract/dimensions.ts': 101, // shapes of policies of one limiter, and the newest
  'common/memo.ts': 1000,
  'http/client-key.ts': 128, // prefix lengths
  'http/closed-connections.ts': 700, // open requests on one connection
  'limiter/lifetime.ts': 1000, // open requests
  'features/slots/process-slots.ts': 12_001, // held slots
  'limiter/waiting/waiting-queues.ts': 400, // maxWaiting
  'limiter/waiting/waiting-room.ts': 400, // maxWaiting
  'telemetry/names.ts': 200,
  'limiter/guard/backlog.ts': 10_000,
  'stores/redis/calls/batch.ts': 64,
  'stores/redis/local/remembered-denials.ts': 10_001, // one more, until the oldest is removed
  'stores/redis/local/denied-keys.ts': 10_000,
  'stores/memory/memory-store.ts': 500, // names of limiters
  'stores/journal.ts': 500, // names of limiters
  'stores/redis/redis-store.ts': 1000,
  'features/charge-history.ts': 100_001,
  'stores/memory/selections.ts': 1001,
  'stores/redis/local/watched-keys.ts': 10_000,
  'stores/counts/traffic-counts.ts': 1000, // counted keys of a second
  'stores/counts/use-histogram.ts': 12_000, // keys whose window is known
};

/** Collections whose size depends on the time of the next write, and their bounds. */
const WRITTEN: Record<string, number> = { 'stores/counts/denials.ts': 2000 };

/** The number of entries that a file's collections may have in any case. */
const MAX_OTHER_ENTRIES = 60;

/** The collections of open requests, and of open limiters. They are empty at the end. */
const PASSING = [
  'limiter/lifetime',
  'limiter/waiting/waiting-queues',
  'limiter/waiting/wake-ups',
  'http/closed-connections',
  'algorithms/concurrency',
  'features/slots/process-slots',
  'limiter/guard/backlog',
  'stores/redis/calls/batch',
];
const OF_LIMITERS = [
  'limiter/name-claims',
  'limiter/guard/breaker',
  'limiter/guard/circuit',
  'stores/redis/local/watched-keys',
  'stores/redis/local/slice-rests',
];

describe('resources', function () {
  this.timeout(600_000);
  let report: Report;
  before(async () => {
    const child = fork(join(import.meta.dirname, 'resources/child.ts'), [String(servers.redis.port)], {
      execArgv: ['--expose-gc', ...TYPESCRIPT],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let errors = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (errors += text));
    const exit = once(child, 'exit');
    const message = once(child, 'message') as Promise<[Report]>;
    await Promise.race([message, exit.then(([code]) => expect.fail(`exit ${String(code)}: ${errors}`))]);
    [report] = await message;
    await exit;
  });

  it('every Map and Set that grows with clients’ requests is bounded, and the child reached the bound', () => {
    const large = Object.entries(report.peaks).filter(
      ([file, size]) => (size > MAX_OTHER_ENTRIES || file in BOUNDS) && !(file in WRITTEN),
    );
    for (const [file, bound] of Object.entries(WRITTEN)) expect(report.peaks[file]).to.be.at.most(bound);
    expect(Object.fromEntries(large)).to.deep.equal(BOUNDS);
  });

  it('no entry remains of 10,000 waits, of held requests, or of any other finished work', () => {
    for (const file of PASSING) expect(report.idle[`${file}.ts`], file).to.equal(undefined);
  });

  it('no entry remains of closed limiters', () => {
    for (const file of [...PASSING, ...OF_LIMITERS])
      expect(report.closed[`${file}.ts`], file).to.equal(undefined);
  });

  it('many limiters and stores add no more listeners than one to their client and the process, and many requests none to their connection', () => {
    expect(report.listeners).to.deep.equal({ 'the client': 2, 'the process': 0, 'a connection': 0 });
  });

  it('the heap does not grow when the same work is repeated', () => {
    expect(report.growth).to.be.below(2 ** 19);
  });
});
