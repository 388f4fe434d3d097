// The checks of an adapter by headgate-testing, on both platforms of Nest and with the packed package. Prints the failures.
import { adapterChecks } from 'headgate-testing';
import { nestAdapter, platforms } from '../../support/nest.js';

async function main(): Promise<void> {
  let passed = 0;
  for (const platform of Object.keys(platforms)) {
    for (const { suite, name, run } of adapterChecks(nestAdapter(platform))) {
      try {
        await run();
        passed++;
      } catch (error) {
        console.log(`${platform}, ${suite}: ${name}: ${String(error)}`);
      }
    }
  }
  console.log(passed > 100 ? 'works' : `${passed} passed`);
}

void main();
