// Prints the files that `headgate/express` loads from the bundle in a directory, and then the files, and the modules of Node, that a first
// decision in memory loads. Runs without hooks, which would load some of those modules.
const { join } = require('node:path');

const [, , directory = ''] = process.argv;
const { moduleLoadList } = /** @type {{ moduleLoadList: string[] }} */ (/** @type {unknown} */ (process));
const write = process.stdout.write.bind(process.stdout);

const list = () => ({ files: Object.keys(require.cache), modules: [...moduleLoadList] });

let known = list();

/** Those that were loaded since the last call. */
const added = () => {
  const { files, modules } = known;
  known = list();
  return {
    files: known.files.filter((file) => !files.includes(file)),
    modules: known.modules.filter((name) => name.startsWith('NativeModule') && !modules.includes(name)),
  };
};

require(join(directory, 'express.js'));
const imported = added();
const { createLimiter } = /** @type {typeof import('headgate')} */ (require(join(directory, 'index.js')));
added();
void createLimiter('10/1m')
  .consume('ada')
  .then(() => write(JSON.stringify({ imported, decided: added() })));
