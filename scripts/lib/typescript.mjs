// Loads TypeScript for the tests: `node --import ./scripts/lib/typescript.mjs`. Like tsx, but for the files of this repository alone, so
// that a process that imports src starts in half of the time. Over a hundred processes of the tests do.
import { register } from 'node:module';

register('./typescript-hooks.mjs', import.meta.url);
process.setSourceMapsEnabled(true);
// Mocha would first `require` each test, which cannot load TypeScript, and would report that instead of the error of a test's import.
Object.defineProperty(process.features, 'require_module', { value: false });
