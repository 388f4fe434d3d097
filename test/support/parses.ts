/** The beginning of the expression by which `parseStateKey` and `parseOwnerText` parse. */
const STATE_KEY = '^\\{([^{}:]*):';

/** Counts the owner texts and Redis keys that are parsed while a function runs. */
export async function parsesDuring(run: () => Promise<unknown>): Promise<number> {
  const { exec } = RegExp.prototype;
  let parses = 0;
  RegExp.prototype.exec = function (text) {
    if (this.source.startsWith(STATE_KEY)) parses++;
    return exec.call(this, text);
  };
  try {
    await run();
  } finally {
    RegExp.prototype.exec = exec;
  }
  return parses;
}

/** Counts the turns that other work of the process has while a function runs. */
export async function turnsDuring(run: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    if (isOver) return;
    turns++;
    setImmediate(turn);
  };
  setImmediate(turn);
  await run();
  isOver = true;
  return turns;
}
