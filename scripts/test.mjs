// npm test, on a fresh clone too: dependencies, servers, a browser, Prometheus, mocha. Arguments go to mocha: npm test -- --grep x
// npm run test:unit (--unit): what needs no server, browser, build or example; installs nothing but dependencies.
import { availableParallelism } from 'node:os';
import { getBrowser } from './browser.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { run } from './lib/run.mjs';
import { getPrometheus } from './prometheus.mjs';
import { getServers } from './servers.mjs';

/** What cannot do without servers, or starts processes, or takes long. */
const notUnit = `
  cli/{administration,ban-book,bans,check,choosing-limits,connection,hash-keys,limits,list,process,replay,state-keys,suggest,tiers,top}
  compat/* compatibility/* docs demo examples faults/* features/{decorators-examples,lines,observability} house
  http/{conformance,connections,nestjs,proxies,security,turn} identity laws/many-policies memory mutants package prometheus redis/*
  release resources store-down testing/adapter-checks
`;

const args = process.argv.slice(2);
const unit = args[0] === '--unit';
const ignored = notUnit.trim().split(/\s+/);
if (unit) {
  const jobs = String(Math.max(2, availableParallelism()));
  const ignoring = ignored.flatMap((name) => ['--ignore', `test/${name}.test.ts`]);
  // Only the tests of servers need to run one after the other.
  args.splice(0, 1, '--parallel', '--jobs', jobs, ...ignoring);
}

ensureDependencies();
const problems = unit ? [] : [...getServers(), ...getBrowser(), ...getPrometheus()];
if (problems.length > 0) {
  console.error([...problems, 'npm run test:unit needs none of these.'].join('\n'));
  process.exit(1);
}
// Random tests search half as long, so that there is an answer in seconds.
const env = unit
  ? { HEADGATE_SERVERS: 'none', HEADGATE_RUNS: process.env['HEADGATE_RUNS'] ?? '0.5' }
  : undefined;
process.exit(run(process.execPath, ['node_modules/mocha/bin/mocha.js', ...args], env));
