// Loads each sub-path of the package, by import and by require, and prints those that threw.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const failed = [];
for (const name of Object.keys(require('headgate/package.json').exports)) {
  if (name === './package.json') continue;
  const specifier = `headgate${name.slice(1)}`;
  try {
    await import(specifier);
    require(specifier);
  } catch (error) {
    failed.push(`${specifier}: ${error.stack}`);
  }
}
console.log(failed.length === 0 ? 'works' : failed.join('\n'));
