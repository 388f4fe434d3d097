// Modules of Node that the bundle loads at their first use: a server has loaded them before its first request, and other processes may never need
// them. Own files and packages load with the package, because a deployment may replace `node_modules` beside a running process.
import type { Plugin, RenderedChunk } from 'rollup';

const NODE_MODULES = ['node:http', 'node:net'];

/** Replaces `require` of these modules by getters. The code that reads the exports stays as it is. */
export const lazyModules: Plugin = {
  name: 'lazy modules of Node',
  renderChunk: (code, chunk) =>
    code.replace(/^const (\w+) = require\('([^']+)'\);$/gm, (whole, name: string, path: string) => {
      const names = namesOf(chunk, path);
      if (names === undefined) return whole;
      const getters = names.map(
        (each) => `get ${each}() { return (loaded$${name} ??= load$${name}()).${each}; }`,
      );
      return [
        `let loaded$${name};`,
        `const load$${name} = () => require('${path}');`,
        `const ${name} = { ${getters.join(', ')} };`,
      ].join('\n');
    }),
};

/** The names that a chunk imports from a module that loads at its first use. */
const namesOf = (chunk: RenderedChunk, path: string): readonly string[] | undefined =>
  NODE_MODULES.includes(path) ? chunk.importedBindings[path] : undefined;
