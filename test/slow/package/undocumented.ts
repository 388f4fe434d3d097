// The exports and members for which editors show no documentation.
import ts from 'typescript';

/** Types of foreign packages under their old names, already known to users. Only their options and results are checked. */
const OURS_OF_OTHERS = /(Options|Result|Context|^Count)$/;

/** Types of other packages' clients, whose members users never set. */
const CLIENTS = /^(RedisClient|AdminSource)$/;

/**
 * The exports of the modules, and the members of their types, without documentation.
 *
 * @param root the directory of the declarations that count
 */
export function undocumented(modules: readonly string[], root: string): { count: number; silent: string[] } {
  const program = ts.createProgram(modules, { module: ts.ModuleKind.NodeNext, strict: true });
  const checker = program.getTypeChecker();
  const silent = new Set<string>();
  const visited = new Set<ts.Symbol>();

  function look(symbol: ts.Symbol, name: string): void {
    if (visited.has(symbol)) return;
    visited.add(symbol);
    if (symbol.getDocumentationComment(checker).length === 0) silent.add(name);
  }

  /** Whether a member is Headgate's own and may be set or read: it is not private, and not declared only to be absent. */
  function counts(member: ts.Symbol): boolean {
    const declared = member.declarations?.some((each) => each.getSourceFile().fileName.startsWith(root));
    const isAbsent = checker.getTypeOfSymbol(member).flags === ts.TypeFlags.Undefined;
    return declared === true && !isAbsent && !/^(__|#|prototype$)/.test(member.name);
  }

  for (const path of modules) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(path)!)!;
    for (const exported of checker.getExportsOfModule(module)) {
      if (/^(default|export=)$/.test(exported.name)) continue;
      const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
      const symbol = isAlias ? checker.getAliasedSymbol(exported) : exported;
      const isOthers = path.includes('/compat/') && !OURS_OF_OTHERS.test(exported.name);
      if (!counts(symbol) || (isOthers && (symbol.flags & ts.SymbolFlags.Function) === 0)) continue;
      const name = `${path.slice(root.length)} ${exported.name}`;
      look(symbol, name);
      if ((symbol.flags & ts.SymbolFlags.Type) === 0) continue;
      if (CLIENTS.test(exported.name)) continue;
      const type = checker.getDeclaredTypeOfSymbol(symbol);
      for (const each of type.isUnion() ? type.types : [type]) {
        const isObject = (each.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0;
        const members = isObject ? each.getProperties() : [];
        for (const member of members) if (counts(member)) look(member, `${name}.${member.name}`);
      }
    }
  }
  return { count: visited.size, silent: [...silent] };
}
