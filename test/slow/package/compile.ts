// Compiles projects as `tsc -p` does, in this process: the declarations that a TypeScript has read serve its other projects, too.
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type * as TypeScript from 'typescript';

const require = createRequire(import.meta.url);

/** What the TypeScript that was asked last has read. That of another one is let go, as it is large. */
let last = { typescript: '', files: new Map<string, TypeScript.SourceFile | undefined>() };

/**
 * @param typescript the name of its package
 * @param config the path of the project's configuration
 * @returns what tsc would say: nothing, if all is right
 */
export function compile(typescript: string, config: string): string {
  const ts = require(typescript) as typeof TypeScript;
  const file = ts.readJsonConfigFile(config, (path) => ts.sys.readFile(path));
  const directory = dirname(config);
  const parsed = ts.parseJsonSourceFileConfigFileContent(file, ts.sys, directory, {}, config);
  const { options, fileNames, errors } = parsed;
  const host = ts.createCompilerHost(options);
  shareDeclarations(host, typescript, ts.ModuleKind[options.module!]);
  const program = ts.createProgram(fileNames, options, host);
  const found = [...errors, ...ts.getPreEmitDiagnostics(program)];
  if (!options.noEmit) found.push(...program.emit().diagnostics);
  return ts.formatDiagnostics(found, { ...host, getCurrentDirectory: () => directory });
}

function shareDeclarations(host: TypeScript.CompilerHost, typescript: string, module: string): void {
  if (last.typescript !== typescript) last = { typescript, files: new Map() };
  const { files } = last;
  const { getSourceFile } = host;
  host.getSourceFile = (name, options, ...rest) => {
    const { impliedNodeFormat } = options as TypeScript.CreateSourceFileOptions;
    // What makes a declaration a module: its own text, or in Node's modes its format.
    const key = `${name} ${module.startsWith('Node')} ${impliedNodeFormat}`;
    if (!/\.d\.[cm]?ts$/.test(name)) return getSourceFile(name, options, ...rest);
    if (!files.has(key)) files.set(key, getSourceFile(name, options, ...rest));
    return files.get(key);
  };
}
