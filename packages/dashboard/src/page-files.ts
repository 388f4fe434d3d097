// The texts of the page. The build replaces this module with the texts, so the package needs no file beside its code.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const packages = createRequire(import.meta.url);

/** Libraries of the page, which define globals: preact, preactHooks, htm. */
const LIBRARIES = ['preact', 'preact/hooks', 'htm'];

/** The modules of the page, each after those that it imports. */
const MODULES = [
  ...['lib', 'address', 'text', 'zone', 'command', 'plan', 'use', 'undo', 'key-facts', 'outages'],
  ...['state', 'link', 'parts', 'outage', 'charts', 'notes', 'transfer', 'limits', 'dialog', 'slots'],
  ...[
    'tenants',
    'denied',
    'near',
    'limiter',
    'all-keys',
    'now',
    'past',
    'verdict',
    'key',
    'what-if',
    'log',
    'processes',
    'main',
  ],
];

const own = (name: string): string => readFileSync(new URL(`./page/${name}`, import.meta.url), 'utf8');

/** A library as a script. It is beside the library's module. */
function library(name: string): string {
  const file = packages.resolve(name).replace(/\.js$/, '.umd.js');
  return readFileSync(file, 'utf8').replace(/\n\/\/# sourceMappingURL=.*/, '');
}

/** A module as a part of one script: its names are unique in the page, so imports and exports are left out, and comments, which browsers do not need. */
const linked = (name: string): string =>
  own(`${name}.js`)
    .replace(/^import [^;]*;\n/gm, '')
    .replace(/^export /gm, '')
    .replace(/^ *(?:\/\/.*|\/\*\*(?:[^*]|\*(?!\/))*\*\/)\n/gm, '');

export const pageFiles = {
  libraries: LIBRARIES.map(library).join('\n'),
  script: MODULES.map(linked).join('\n'),
  style: own('page.css'),
};
