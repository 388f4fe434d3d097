import luaparse, { type Node } from 'luaparse';

/** The most variables that one function of a script has at once. Lua allows 200 locals, and 60 upvalues of functions around it. */
export interface LuaSize {
  locals: number;
  upvalues: number;
  /** The names that no local has. */
  readonly globals: Set<string>;
}

/** The variables of an open block: their names, and how many they are, because a name may be there twice. */
interface Block {
  readonly names: Set<string>;
  count: number;
}

const emptyBlock = (): Block => ({ names: new Set(), count: 0 });

/** A function of a script while it is counted. */
interface Scope {
  readonly outer: Scope | undefined;
  readonly blocks: Block[];
  readonly upvalues: Set<string>;
  locals: number;
}

/** Counts variables as Lua's compiler does. It also stores the state of a loop in three locals. */
export function sizeOfLua(source: string): LuaSize {
  const size: LuaSize = { locals: 0, upvalues: 0, globals: new Set() };
  let scope: Scope = { outer: undefined, blocks: [emptyBlock()], upvalues: new Set(), locals: 0 };

  function declare(...names: string[]): void {
    const block = scope.blocks.at(-1)!;
    for (const name of names) block.names.add(name);
    block.count += names.length;
    scope.locals += names.length;
    size.locals = Math.max(size.locals, scope.locals);
  }

  function use(name: string): void {
    let at: Scope | undefined = scope;
    const passed: Scope[] = [];
    while (at) {
      const block = at.blocks.findLastIndex(({ names }) => names.has(name));
      // Two variables of one name in different blocks are two upvalues.
      if (block >= 0) return passed.forEach(({ upvalues }) => upvalues.add(`${name} ${block}`));
      passed.push(at);
      at = at.outer;
    }
    size.globals.add(name);
  }

  function inBlock(run: () => void): void {
    scope.blocks.push(emptyBlock());
    run();
    scope.locals -= scope.blocks.pop()!.count;
  }

  function inFunction(names: string[], body: Node[]): void {
    scope = { outer: scope, blocks: [emptyBlock()], upvalues: new Set(), locals: 0 };
    declare(...names);
    visitAll(body);
    size.upvalues = Math.max(size.upvalues, scope.upvalues.size);
    scope = scope.outer!;
  }

  function visitAll(nodes: readonly (Node | null)[]): void {
    for (const node of nodes) if (node) visit(node);
  }

  function visit(node: Node): void {
    switch (node.type) {
      case 'Identifier':
        return use(node.name);
      case 'MemberExpression':
        return visit(node.base);
      case 'TableKeyString':
        return visit(node.value);
      case 'LocalStatement':
        visitAll(node.init);
        return declare(...node.variables.map(({ name }) => name));
      case 'FunctionDeclaration': {
        const { identifier, parameters, body } = node;
        if (node.isLocal) declare((identifier as luaparse.Identifier).name);
        else if (identifier) visit(identifier);
        return inFunction(
          parameters.map((each) => (each.type === 'Identifier' ? each.name : '...')),
          body,
        );
      }
      case 'ForNumericStatement':
      case 'ForGenericStatement': {
        const isNumeric = node.type === 'ForNumericStatement';
        visitAll(isNumeric ? [node.start, node.end, node.step] : node.iterators);
        const names = (isNumeric ? [node.variable] : node.variables).map(({ name }) => name);
        return inBlock(() => {
          declare('(a)', '(b)', '(c)', ...names);
          inBlock(() => visitAll(node.body));
        });
      }
      case 'RepeatStatement':
        return inBlock(() => visitAll([...node.body, node.condition]));
      case 'WhileStatement':
      case 'IfClause':
      case 'ElseifClause':
        visit(node.condition);
        return inBlock(() => visitAll(node.body));
      case 'DoStatement':
      case 'ElseClause':
        return inBlock(() => visitAll(node.body));
      default:
        // Without an array for each node: there are millions.
        for (const field in node) {
          const child = (node as unknown as Record<string, unknown>)[field];
          if (typeof child !== 'object' || child === null) continue;
          if (Array.isArray(child)) visitAll(child as Node[]);
          else if ('type' in child) visit(child as Node);
        }
    }
  }

  visitAll(luaparse.parse(source, { luaVersion: '5.1', comments: false }).body);
  return size;
}
