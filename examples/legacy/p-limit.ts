// Jobs with p-limit. docs/migrating/queues.md has the program after the move.
import pLimit from 'p-limit';

const two = pLimit(2);

async function job(name: string): Promise<void> {
  console.log(`${name} begins`);
  await new Promise((resolve) => setTimeout(resolve, 120));
  console.log(`${name} is done`);
}

await Promise.all(['a', 'b', 'c', 'd'].map((name) => two(() => job(name))));
