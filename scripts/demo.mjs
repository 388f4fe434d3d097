// npm run demo, even on a fresh clone: installs dependencies and runs scripts/demo.ts with the given arguments.
import { spawn } from 'node:child_process';
import { ensureDependencies } from './lib/dependencies.mjs';
import { root } from './lib/run.mjs';

ensureDependencies();
const demo = spawn(process.execPath, ['--import', 'tsx', 'scripts/demo.ts', ...process.argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
});
// A Ctrl-C reaches both processes. The demo decides how it ends.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => demo.kill('SIGTERM'));
demo.once('exit', (code) => process.exit(code ?? 1));
