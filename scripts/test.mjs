// npm test, on a fresh clone too: dependencies, servers, a browser, mocha. Arguments go to mocha: npm test -- --grep x
import { ensureBrowser } from './browser.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { run } from './lib/run.mjs';
import { ensureServers } from './servers.mjs';

ensureDependencies();
ensureServers();
ensureBrowser();
process.exit(run(process.execPath, ['node_modules/mocha/bin/mocha.js', ...process.argv.slice(2)]));
