// Which tests may notice a mutant: by the folder or file that has it, in stages, the quickest and most likely first.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../lib/run.mjs';

const decisions = [
  ['vectors'],
  ['bad-input', 'stores', 'laws', 'windows'],
  ['identity', 'memory', 'redis', 'features'],
  ['http', 'compatibility'],
];
/** What is over in seconds. */
const requests = [
  ...['flow', 'headers', 'client-key', 'partition-key', 'options', 'held-slots', 'setup-checks'],
  ...['node-response', 'web-response', 'turn', 'return', 'proxies', 'errors', 'security'],
  ...['express', 'fastify'],
].map((name) => `http/${name}`);
const guard = [
  ['faults/breaker', 'faults/circuit', 'faults/timeouts', 'malformed-reply'],
  ['faults/policy', 'faults/give-back'],
  ['stores', 'features'],
  ['redis', 'faults/deadline'],
  ['http'],
];
const general = [
  ['common', 'vectors', 'bad-input', 'messages', 'warnings', 'features'],
  ['http', 'laws', 'stores', 'redis'],
  ...guard.slice(0, 2),
  ['cli'],
];

/** @type {readonly (readonly [place: string, stages: string[][]])[]} the first place that fits counts */
const places = [
  ['src/algorithms/', decisions],
  [
    'src/stores/redis/clients',
    [
      ['redis', 'stores', 'malformed-reply'],
      ['faults/resend', 'faults/close'],
    ],
  ],
  ['src/stores/redis/ban-book.ts', [['cli/ban-book'], ['redis']]],
  ['src/stores/redis/lua/note-bans.lua', [['cli/ban-book', 'cli/bans']]],
  ['src/stores/redis/lua/seal-bans.lua', [['cli/ban-book', 'cli/bans']]],
  ['src/stores/redis/traffic.ts', [['cli/top']]],
  ['src/stores/redis/lua/count.lua', [['cli/top']]],
  ['src/stores/redis/publisher.ts', [['cli/limits']]],
  ['src/stores/redis/lua/publish.lua', [['cli/limits']]],
  [
    'src/stores/redis',
    [
      ['redis/script-calls', 'redis/across', 'faults/deadline', 'laws/denied-keys', 'malformed-reply'],
      ['vectors', 'redis'],
      ['stores', 'bad-input'],
      ['laws', 'identity', 'features'],
    ],
  ],
  ['src/stores/guard/', guard],
  ['src/stores/state/key-state.ts', [['features/byte-stores', 'stores'], ...decisions.slice(1)]],
  ['src/stores/state/state-store.ts', [['features/byte-stores', 'stores']]],
  ['src/stores/', [['vectors', 'redis'], ...decisions.slice(1), ['malformed-reply', 'faults/policy', 'cli']]],
  ['src/http/adapters/express.ts', [['http/express', 'http/conformance'], ['http', 'bad-input'], ['compat']]],
  ['src/http/adapters/fastify.ts', [['http/fastify', 'http/conformance'], ['http', 'bad-input'], ['compat']]],
  ['src/http/adapters/nestjs/', [['http/nestjs'], ['http/conformance']]],
  [
    'src/http',
    [
      [...requests, 'features/lists', 'warnings'],
      ['http'],
      ['features', 'bad-input'],
      ['compat', 'faults/requests'],
    ],
  ],
  ['src/compat/express-rate-limit', [['compat/express-rate-limit'], ['compat']]],
  ['src/compat/fastify-rate-limit', [['compat/fastify-rate-limit'], ['compat']]],
  ['src/testing', [['testing'], ['stores', 'laws']]],
  ['src/cli/', [['cli/log-lines', 'cli/suggest', 'features/policy-text'], ['cli']]],
  ['src/telemetry/', [['features/observability']]],
  ['src/contract/gauges.ts', [['features/observability']]],
  ['src/limiter/slots.ts', [['features/observability']]],
  ['src/limiter/decorators.ts', [['features/decorators'], ['features/decorators-examples']]],
  ['src/limiter/rate-limited.ts', [['features/decorators'], ['features/decorators-examples']]],
  ['src/limiter/waiting/', [['features/wait', 'features/lines', 'features/hold'], ...general]],
  ['src/', general],
];

/**
 * The test files and folders for a source file, stage by stage.
 * @param {string} file its path from the root
 * @returns {string[][]}
 */
export function stagesFor(file) {
  const stages = places.find(([place]) => file.startsWith(place))?.[1] ?? [];
  const seen = new Set();
  return stages.map((names) =>
    names
      .filter((name) => !seen.has(name) && seen.add(name))
      .map((name) => {
        const path = [`test/${name}.test.ts`, `test/${name}`].find((each) => existsSync(join(root, each)));
        if (!path) throw new Error(`scripts/mutants/tests.mjs names test/${name}, which is not there.`);
        return path;
      }),
  );
}
