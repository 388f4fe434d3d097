// Parts of the bundle that load at their first use. Parsing code is the largest cost of `import 'headgate'`, and many limiters never wait, share or
// ask a server. A use through a getter costs some nanoseconds, so code that runs in each decision of a feature is not here: with that of
// overrides, a decision in memory by a limiter with overrides took a tenth longer.
import { basename, relative } from 'node:path';
import type { Plugin, RenderedChunk } from 'rollup';
import { root } from './run.mjs';

/** The modules of each part, which is a file of `cjs/shared`. No module may use a part while it loads. If one does, the build fails. */
const PARTS: Readonly<Record<string, RegExp>> = {
  addresses: /^http\/address$/,
  guard: /^limiter\/guard\/(backlog|breaker|circuit|idle-probes|local|probe|refusals)$/,
  sharing: /^(algorithms\/shares\/sharing|stores\/state\/shares)$/,
  waiting:
    /^limiter\/waiting\/(ask-schedule|hold-queue|process-line|questions|sleeps|wait-errors|waiter|waiting-\w+)$/,
};

/** Modules of Node that a server has loaded before its first request, and other processes may never need. */
const NODE_MODULES = ['node:http', 'node:net'];

/** Packages whose export is a function. */
const FUNCTIONS = ['ms'];

/** The part of a module of `src`. */
export function partOf(id: string): string | undefined {
  const module = /^src\/(.*)\.ts$/.exec(relative(root, id))?.[1];
  return module === undefined ? undefined : Object.keys(PARTS).find((part) => PARTS[part]!.test(module));
}

/** Replaces `require` of a part by getters that load the part. The code that reads the exports stays as it is. */
export const lazyParts: Plugin = {
  name: 'lazy parts',
  renderChunk: (code, chunk) =>
    code.replace(/^const (\w+) = require\('([^']+)'\);$/gm, (whole, name: string, path: string) => {
      const loaded = `(loaded$${name} ?? load$${name}())`;
      const lazy = FUNCTIONS.includes(path)
        ? `(...args) => ${loaded}(...args)`
        : importsOf(chunk, path)?.map((each) => `get ${each}() { return ${loaded}.${each}; }`);
      if (lazy === undefined) return whole;
      return [
        `let loaded$${name};`,
        `const load$${name} = () => loaded$${name} = require('${path}');`,
        `const ${name} = ${typeof lazy === 'string' ? lazy : `{ ${lazy.join(', ')} }`};`,
      ].join('\n');
    }),
};

/** The names that a chunk imports from a file, if the file loads at its first use. */
function importsOf(chunk: RenderedChunk, path: string): readonly string[] | undefined {
  if (NODE_MODULES.includes(path)) return chunk.importedBindings[path];
  const part = basename(path, '.js');
  const file =
    path.startsWith('.') && part in PARTS
      ? chunk.imports.find((each) => each === `shared/${part}.js`)
      : undefined;
  return file === undefined ? undefined : chunk.importedBindings[file];
}
