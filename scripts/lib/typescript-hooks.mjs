// Hooks of `import`, which find the TypeScript file of a module, and compile the file unless an earlier process has.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { root } from './run.mjs';

const CACHE = join(root, 'node_modules/.cache/headgate/typescript');
mkdirSync(CACHE, { recursive: true });

const options = /** @satisfies {import('esbuild').TransformOptions} */ ({
  loader: 'ts',
  // Node 20.0 has no import attributes.
  target: 'node20.19',
  sourcemap: 'inline',
  sourcesContent: false,
});

/**
 * @param {string} path of a JSON file with comments on separate lines
 * @returns {unknown}
 */
const parse = (path) => JSON.parse(readFileSync(join(root, path), 'utf8').replace(/^\s*\/\/.*$/gm, ''));

const { version } = /** @type {{ version: string }} */ (parse('node_modules/esbuild/package.json'));

/** A file compiled by another esbuild, or with other options, is compiled again. */
const salt = JSON.stringify([version, options]);

/** The files of the packages' names, with `*` for any text. */
const { paths } = /** @type {{ compilerOptions: { paths: Record<string, string[]> } }} */ (
  parse('tsconfig.json')
).compilerOptions;

/** The file of each name that was imported. */
const files = new Map();

/**
 * @param {string} name such as `headgate/redis`
 * @returns {string | undefined} the URL of its file in this repository
 */
function fileOf(name) {
  for (const [pattern, [path = '']] of Object.entries(paths)) {
    const [start = '', end] = pattern.split('*');
    if (end === undefined ? name === pattern : name.startsWith(start))
      return pathToFileURL(join(root, path.replace('*', name.slice(start.length)))).href;
  }
  return undefined;
}

/** @type {import('node:module').ResolveHook} */
export function resolve(specifier, context, next) {
  const { parentURL } = context;
  if (!parentURL || parentURL.includes('/node_modules/')) return next(specifier, context);
  const url = specifier.startsWith('.') ? new URL(specifier, parentURL).href : fileOf(specifier);
  const file = url?.replace(/\.js(?=$|\?)/, '.ts');
  if (!file || !/\.ts($|\?)/.test(file)) return next(specifier, context);
  let exists = files.get(file);
  if (exists === undefined) files.set(file, (exists = existsSync(fileURLToPath(file))));
  return exists ? { url: file, format: 'module', shortCircuit: true } : next(specifier, context);
}

/** @type {import('node:module').LoadHook} */
export async function load(url, context, next) {
  if (!/\.ts($|\?)/.test(url) || url.includes('/node_modules/')) return next(url, context);
  return { format: 'module', source: await compile(fileURLToPath(url)), shortCircuit: true };
}

/**
 * @param {string} path of a TypeScript file
 * @returns {Promise<string>} the file in JavaScript
 */
async function compile(path) {
  const text = readFileSync(path, 'utf8');
  // Each file has one compiled file, which ends with the hash of its source.
  const end = `//${createHash('sha1').update(salt).update(text).digest('hex')}\n`;
  const cached = join(CACHE, `${relative(root, path).replaceAll('/', '+')}.js`);
  if (existsSync(cached)) {
    const compiled = readFileSync(cached, 'utf8');
    if (compiled.endsWith(end)) return compiled;
  }
  const { transform } = await import('esbuild');
  const { code } = await transform(text, { ...options, sourcefile: basename(path) });
  // Other processes may read the file meanwhile.
  const written = `${cached}.${process.pid}`;
  writeFileSync(written, code + end);
  renameSync(written, cached);
  return code;
}
