// The texts of the page. The build replaces this module with the texts, so the package needs no file beside its code.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const packages = createRequire(import.meta.url);

/** Libraries of the page, as scripts that define globals: preact, preactHooks, htm. */
const LIBRARIES = ['preact/dist/preact.umd.js', 'preact/hooks/dist/hooks.umd.js', 'htm/dist/htm.umd.js'];

/** The modules of the page, each after those that it imports. */
const MODULES = [
  ...['lib', 'text', 'command', 'state', 'parts', 'charts', 'dialog'],
  ...['now', 'key', 'what-if', 'log', 'main'],
];

const own = (name: string): string => readFileSync(new URL(`./page/${name}`, import.meta.url), 'utf8');

/** The folder of a package whose `exports` hide the file. */
function library(path: string): string {
  const [name = ''] = path.split('/');
  const manifest = packages.resolve(`${name}/package.json`);
  const text = readFileSync(manifest.replace('package.json', path.slice(name.length + 1)), 'utf8');
  return text.replace(/\n\/\/# sourceMappingURL=.*/, '');
}

/** A module as a part of one script: its names are unique in the page, so imports and exports are left out. */
const linked = (name: string): string =>
  own(`${name}.js`)
    .replace(/^import [^;]*;\n/gm, '')
    .replace(/^export /gm, '');

export const pageFiles = {
  libraries: LIBRARIES.map(library).join('\n'),
  script: MODULES.map(linked).join('\n'),
  style: own('page.css'),
};
