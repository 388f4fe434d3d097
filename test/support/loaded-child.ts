// Prints the modules of Node that were loaded with the package, and those that its first decision in memory loads.
import { createLimiter } from 'headgate';

const { moduleLoadList } = process as unknown as { moduleLoadList: readonly string[] };

const before = [...moduleLoadList];
await createLimiter('10/1m').consume('ada');
const loaded = moduleLoadList.filter((name) => !before.includes(name));
console.log(JSON.stringify({ before, loaded }));
