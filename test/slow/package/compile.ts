// Compiles projects like `tsc -p`, but in this process, so that a TypeScript version reads its declarations once for all projects.
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type * as TypeScript from 'typescript';

const require = createRequire(import.meta.url);

/** The files read by the last TypeScript version. The files of earlier versions are dropped, because they are large. */
let last = { typescript: '', files: new Map<string, TypeScript.SourceFile | undefined>() };

/**
 * @param typescript the name of its package
 * @param config the path of the project's configuration
 * @returns the output of tsc, which is empty without errors
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
  const diagnostics = [...errors, ...ts.getPreEmitDiagnostics(program)];
  if (!options.noEmit) diagnostics.push(...program.emit().diagnostics);
  return ts.formatDiagnostics(diagnostics, { ...host, getCurrentDirectory: () => directory });
}

function shareDeclarations(host: TypeScript.CompilerHost, typescript: string, module: string): void {
  if (last.typescript !== typescript) last = { typescript, files: new Map() };
  const { files } = last;
  const { getSourceFile } = host;
  host.getSourceFile = (name, options, ...rest) => {
    const { impliedNodeFormat } = options as TypeScript.CreateSourceFileOptions;
    // A declaration becomes a module by its own text, or in Node's modes by its format.
    const key = `${name} ${module.startsWith('Node')} ${impliedNodeFormat}`;
    if (!/\.d\.[cm]?ts$/.test(name)) return getSourceFile(name, options, ...rest);
    if (!files.has(key)) files.set(key, getSourceFile(name, options, ...rest));
    return files.get(key);
  };
}
