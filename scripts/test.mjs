// npm test, on a fresh clone too: dependencies, servers, a build, mocha. Arguments go to mocha: npm test -- --grep x
import { ensureDependencies } from './lib/dependencies.mjs';
import { run } from './lib/run.mjs';
import { ensureServers } from './servers.mjs';

ensureDependencies();
ensureServers();
const status =
  run(process.execPath, ['scripts/build.mjs']) ||
  run(process.execPath, ['node_modules/mocha/bin/mocha.js', ...process.argv.slice(2)]);
process.exit(status);
