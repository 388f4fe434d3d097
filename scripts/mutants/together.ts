// npm run mutants:together: applies each mistake of together.json, which mixes features up, to a copy of the tree, and plays the oracle on it for
// 20 seconds. Every mistake must be found.
//   npm run mutants:together -- fresh          the mutants with this word in their name
//   HEADGATE_ORACLE_MS=60000                   the time for each mutant, on a busy machine
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { listFiles, root } from '../lib/run.mjs';
import mutants from './together.json' with { type: 'json' };

/** The stores that show a mistake: Redis for Lua and its own store, memory for state in the process, and both for the rest. */
const storesOf = (file: string): string[] => {
  if (file.endsWith('.lua') || file.startsWith('src/stores/redis/')) return ['redis'];
  return file.startsWith('src/stores/state/') ? ['memory'] : ['memory', 'redis'];
};
const MS = Number(process.env['HEADGATE_ORACLE_MS'] ?? 20_000);
/** The time of a child beyond that of its search, for its start, the shrinking of a counterexample, and its end, on a busy machine. */
const SPARE_MS = 120_000;

const tree = mkdtempSync(join(tmpdir(), 'headgate-together-'));
process.once('exit', () => rmSync(tree, { recursive: true, force: true }));
for (const file of listFiles().filter((each) => each !== 'node_modules' && existsSync(join(root, each))))
  cpSync(join(root, file), join(tree, file));
symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));

/** @returns the difference of a counterexample, or undefined */
async function play(cwd: string, store: string, seed: number, ms: number): Promise<string | undefined> {
  const env = {
    ...process.env,
    HEADGATE_ORACLE_MS: String(ms),
    HEADGATE_ORACLE_STORE: store,
    HEADGATE_ORACLE_SEED: String(seed),
  };
  const args = ['--import', 'tsx', 'test/oracle/run.ts'];
  const child = spawn(process.execPath, args, { cwd, env, timeout: ms + SPARE_MS, killSignal: 'SIGKILL' });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)));
  const [status, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  // A mutant that hangs is found, too.
  if (signal) return `Error: no end within ${ms + SPARE_MS} ms`;
  return status === 0 ? undefined : (/^(Error: .*|.*Error.*)$/m.exec(output)?.[0] ?? output);
}

const chosen = mutants.filter(({ name }) => name.includes(process.argv[2] ?? ''));
let alive = 0;
for (const { name, file, from, to } of chosen) {
  const path = join(tree, file);
  const original = readFileSync(path, 'utf8');
  if (original.split(from).length !== 2) throw new Error(`${name}: ${file} must contain once: ${from}`);
  writeFileSync(
    path,
    original.replace(from, () => to),
  );
  let found: string | undefined;
  const stores = storesOf(file);
  for (const store of stores) {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const difference = await play(tree, store, seed, MS / stores.length);
    // A difference that is there without the mutant is a defect, and kills nothing.
    if (!difference || difference === (await play(root, store, seed, MS / stores.length))) continue;
    found = `on ${store}, seed ${seed}: ${difference}`;
    break;
  }
  writeFileSync(path, original);
  if (!found) alive++;
  console.log(`${found ? 'dead ' : 'ALIVE'} ${name}${found ? ` (${found.slice(0, 160)})` : ''}`);
}
console.log(`${chosen.length - alive} dead, ${alive} alive`);
process.exitCode = alive > 0 ? 1 : 0;
