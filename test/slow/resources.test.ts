// Law 15. What grows with what clients send is bounded, and nothing of it outlives what it was for.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Told } from './resources/child.js';
import { servers } from '../support/shared-servers.js';

/**
 * The most entries that one Map or Set of each file may have, which the child reaches. A file that is not listed has a few, whatever
 * clients do: list it here together with its bound, and drive it past that in the child.
 */
const BOUNDS: Readonly<Record<string, number>> = {
  'algorithms/ban.ts': 1000, // maxKeys of its store
  'algorithms/concurrency.ts': 700, // its limit
  'cli/replay/addresses.ts': 10_000,
  'compat/express-rate-limit/quota.ts': 100_000,
  'compat/fastify-rate-limit/counter.ts': 1000,
  'contract/dimensions.ts': 101, // shapes of policies of one limiter, and those that come
  'http/client-key.ts': 1000,
  'http/follow.ts': 700, // requests under way on one connection
  'http/compile-options.ts': 1000,
  'limiter/limiter.ts': 1000, // requests under way
  'limiter/slots.ts': 12_001, // slots that are held
  'limiter/waiting/lines.ts': 400, // maxWaiting
  'telemetry/names.ts': 200,
  'limiter/guard/backlog.ts': 10_000,
  'stores/redis/calls/batch.ts': 64,
  'stores/redis/local/denials.ts': 10_001, // one more, until the oldest is taken out
  'stores/redis/local/denied-keys.ts': 10_000,
  'stores/memory/memory.ts': 500, // names of limiters
  'stores/redis/redis-store.ts': 1000,
  'stores/state/returns.ts': 100_001,
  'stores/memory/selections.ts': 1001,
  'stores/redis/local/slices.ts': 10_000,
};

/** Files whose collections may have this many entries whatever happens. */
const FEW = 60;

/** What is under way, or belongs to limiters that are open. Nothing of it is left. */
const PASSING = [
  'limiter/limiter',
  'limiter/waiting/lines',
  'limiter/waiting/rooms',
  'http/follow',
  'algorithms/concurrency',
  'limiter/slots',
  'limiter/guard/backlog',
  'stores/redis/calls/batch',
];
const OF_LIMITERS = [
  'limiter/names',
  'limiter/guard/breaker',
  'limiter/guard/circuit',
  'stores/redis/local/slices',
];

describe('resources', function () {
  this.timeout(300_000);
  let told: Told;
  before(async () => {
    const child = fork(join(import.meta.dirname, 'resources/child.ts'), [String(servers.redis.port)], {
      execArgv: ['--expose-gc', '--import', 'tsx'],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let errors = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (errors += text));
    const exit = once(child, 'exit');
    const message = once(child, 'message') as Promise<[Told]>;
    await Promise.race([message, exit.then(([code]) => expect.fail(`exit ${String(code)}: ${errors}`))]);
    [told] = await message;
    await exit;
  });

  it('every Map and Set that grows with what clients send is bounded, and was driven to its bound', () => {
    const large = Object.entries(told.peaks).filter(([file, size]) => size > FEW || file in BOUNDS);
    expect(Object.fromEntries(large)).to.deep.equal(BOUNDS);
  });

  it('nothing is kept of 10,000 waits, of held requests, and of whatever else is over', () => {
    for (const file of PASSING) expect(told.idle[`${file}.ts`], file).to.equal(undefined);
  });

  it('nothing is kept of limiters that are closed', () => {
    for (const file of [...PASSING, ...OF_LIMITERS])
      expect(told.closed[`${file}.ts`], file).to.equal(undefined);
  });

  it('many limiters and stores listen no more than one, to their client and the process; many requests, to their connection', () => {
    expect(told.listeners).to.deep.equal({ 'the client': 0, 'the process': 0, 'a connection': 0 });
  });

  it('the heap does not grow when all of it is done again and again', () => {
    expect(told.growth).to.be.below(2 ** 19);
  });
});
