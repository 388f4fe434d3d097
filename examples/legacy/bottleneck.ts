// Jobs with bottleneck. docs/migrating/queues.md has the program after the move.
import Bottleneck from 'bottleneck';

const partner = new Bottleneck({ minTime: 50, maxConcurrent: 2 });

async function job(name: string): Promise<void> {
  console.log(`${name} begins`);
  await new Promise((resolve) => setTimeout(resolve, 120));
  console.log(`${name} is done`);
}

await Promise.all(['a', 'b', 'c', 'd'].map((name) => partner.schedule(() => job(name))));
