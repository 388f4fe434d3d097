// Whether a mutant is a program at all: what the compiler refuses says nothing of the tests.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import luaparse from 'luaparse';
import ts from 'typescript';
import { root } from '../lib/run.mjs';
import { applied } from './changes.mjs';

/** @typedef {import('./changes.mjs').Mutant} Mutant */

/** @returns {(mutant: Mutant) => boolean} */
export function compiler() {
  /** @type {ReturnType<typeof typeChecker> | undefined} made for the first that needs it: it takes seconds */
  let errorsOf;
  return (mutant) => {
    const mutated = applied(readFileSync(join(root, mutant.file), 'utf8'), mutant);
    if (mutant.file.endsWith('.lua')) return parses(mutated);
    errorsOf ??= typeChecker();
    return errorsOf(join(root, mutant.file), mutated) === 0;
  };
}

/** @param {string} lua */
function parses(lua) {
  try {
    luaparse.parse(lua, { luaVersion: '5.1' });
    return true;
  } catch {
    return false;
  }
}

/** @returns {(path: string, text: string) => number} the number of errors in one file that has another text */
function typeChecker() {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options, fileNames } = ts.parseJsonConfigFileContent({ ...config, include: ['src'] }, ts.sys, root);
  const mutated = { path: '', text: '', version: 0 };
  const service = ts.createLanguageService({
    // What is unused is the linter's business: such a mutant runs.
    getCompilationSettings: () => ({ ...options, noUnusedLocals: false, noUnusedParameters: false }),
    getScriptFileNames: () => fileNames,
    getScriptVersion: (path) => (path === mutated.path ? String(mutated.version) : '0'),
    getScriptSnapshot(path) {
      const text = path === mutated.path ? mutated.text : ts.sys.readFile(path);
      return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
    },
    getCurrentDirectory: () => root,
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: ts.sys.fileExists,
    readFile: ts.sys.readFile,
    readDirectory: ts.sys.readDirectory,
    directoryExists: ts.sys.directoryExists,
    getDirectories: ts.sys.getDirectories,
  });
  return (path, text) => {
    Object.assign(mutated, { path, text, version: mutated.version + 1 });

    return service.getSyntacticDiagnostics(path).length + service.getSemanticDiagnostics(path).length;
  };
}
