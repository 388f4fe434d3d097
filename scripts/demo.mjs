// npm run demo, even on a fresh clone: installs dependencies and runs scripts/demo.ts.
import { ensureDependencies } from './lib/dependencies.mjs';

ensureDependencies();
const { tsImport } = await import('tsx/esm/api');
await tsImport('./demo.ts', import.meta.url);
