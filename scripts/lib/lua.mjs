// Composes the scripts from the Lua files. A script has what it calls and nothing else, as Redis runs its whole text at each call.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import luaparse from 'luaparse';
import prettier from 'prettier';
import { root } from './run.mjs';

/**
 * A statement of a file's top level, without comments and indentation.
 *
 * @typedef {object} Statement
 * @property {string} file
 * @property {string} text
 * @property {number[]} lines the line in the file, per line of the text, from 1
 * @property {string[]} defines the locals that it declares; a statement without any is never left out
 * @property {Set<string>} uses all tokens in it, names among them
 *
 * @typedef {{ name: string, statements: Statement[] }} Chunk of a file of that name
 *
 * @typedef {Chunk & { local: string, traits: string, functions: string[] }} Algorithm: its local, what else its table holds
 *
 * @typedef {object} Script
 * @property {string} name
 * @property {Set<Statement>} kept
 * @property {Map<Algorithm, string>} algorithms the algorithms that it may have, and how each is made known to it
 * @property {string} main
 *
 * @typedef {{ text: string, line: number, range: [number, number] }} Token
 * @typedef {import('luaparse').Statement & { range: [number, number] }} Node
 */

/** The generated module. */
export const GENERATED = 'src/stores/redis/generated/lua.ts';

/** The script for one algorithm alone. */
export const SINGLE = 'evaluate-single';

const ALGORITHMS = 'src/algorithms';
const STORES = 'src/stores/redis/lua';

/** What the comment at the beginning of a file explains. */
const explained = { [ALGORITHMS]: ['State', 'Params', 'Returns'], [STORES]: ['KEYS', 'ARGV', 'Reply'] };

/** Bans are composed as an algorithm is. */
const BAN = 'ban';

/**
 * Which functions of an algorithm a script calls, and which of the ban's. A script that is not here calls none.
 *
 * @type {Readonly<Record<string, { algorithm?: string[], ban?: string[] }>>}
 */
const calls = {
  evaluate: {
    algorithm: ['check', 'look', 'commit', 'charge', 'adjust', 'release'],
    ban: ['look', 'strike'],
  },
  [SINGLE]: { algorithm: ['look', 'commit', 'charge'] },
  adjust: { algorithm: ['check', 'look', 'adjust'] },
  lease: { algorithm: ['look', 'release', 'renew'] },
  'set-ban': { ban: ['set'] },
};

/**
 * Reads the Lua files and composes the scripts.
 *
 * @returns {Promise<{ module: string, statements: Statement[], unused: Statement[] }>} the generated module, all statements, and those
 *   that no script has
 * @throws Error if a file is not as it should be
 */
export async function composeScripts() {
  const algorithms = filesOf(ALGORITHMS).map(readAlgorithm);
  const chunks = filesOf(STORES).map(({ name, file, source }) => ({
    name,
    statements: statementsOf(file, source),
  }));
  const shared = chunks.filter(({ name }) => ['common', 'policies'].includes(name));
  const mains = chunks.filter((chunk) => !shared.includes(chunk));
  const scripts = mains.map((main) => composeScript(main, shared, algorithms));
  const statements = [...chunks, ...algorithms].flatMap((chunk) => chunk.statements);
  const unused = statements.filter((each) => !scripts.some(({ kept }) => kept.has(each)));
  return { module: await render(shared, algorithms, scripts), statements, unused };
}

/**
 * @param {Chunk} main
 * @param {Chunk[]} shared
 * @param {Algorithm[]} algorithms
 * @returns {Script}
 */
function composeScript({ name, statements: main }, shared, algorithms) {
  /** @type {Script['algorithms']} */
  const known = new Map();
  for (const algorithm of algorithms) {
    const called = (algorithm.name === BAN ? calls[name]?.ban : calls[name]?.algorithm) ?? [];
    const functions = called.filter((each) => algorithm.functions.includes(each));
    if (functions.length === 0) continue;
    known.set(
      algorithm,
      name === SINGLE ? soleLocals(algorithm, called) : registration(algorithm, functions),
    );
  }
  const optional = [...shared, ...algorithms].flatMap(({ statements }) => statements);
  const kept = new Set([...main, ...optional.filter(({ defines }) => defines.length === 0)]);
  const keep = (/** @type {Iterable<string>} */ names) => {
    for (const name of names) for (const each of optional) if (each.defines.includes(name)) kept.add(each);
  };
  for (const text of known.values()) keep(text.match(/\w+/g) ?? []);
  // What is added meanwhile is visited, too.
  for (const { uses } of kept) keep(uses);
  return { name, kept, algorithms: known, main: main.map(({ text }) => text).join('') };
}

/**
 * @param {Algorithm} algorithm
 * @param {string[]} functions
 */
function registration({ name, local, traits }, functions) {
  const fields = [traits, ...functions.map((each) => `${each} = ${local}_${each}`)];
  return `${name === BAN ? BAN : `kernels['${name}']`} = { ${fields.join(', ')} }\n`;
}

/**
 * Of a script's only algorithm no table is made: for one call that costs more than it helps.
 * @param {Algorithm} algorithm
 * @param {string[]} called
 */
function soleLocals({ local, traits, functions }, called) {
  const params = /\bparams = (\d+)/.exec(traits)?.[1];
  const values = called.map((each) => (functions.includes(each) ? `${local}_${each}` : 'nil'));
  const names = ['params', ...called].map((each) => `kernel_${each}`);
  return `local ${names.join(', ')} = ${[params, ...values].join(', ')}\n`;
}

/** @param {keyof typeof explained} directory */
function filesOf(directory) {
  const names = readdirSync(join(root, directory)).filter((name) => name.endsWith('.lua'));
  return names.sort().map((name) => {
    const file = `${directory}/${name}`;
    const source = readFileSync(join(root, file), 'utf8');
    const header = source.slice(0, parse(file, source)[0]?.range[0]);
    const missing = explained[directory]?.filter((word) => !new RegExp(`\\b${word}\\b`).test(header)) ?? [];
    if (missing.length > 0)
      throw new Error(`${file}: its opening comment must describe ${missing.join(', ')}.`);
    return { name: name.slice(0, -'.lua'.length), file, source };
  });
}

/**
 * An algorithm declares a table and its functions: `local gcra = { params = 5 }`, `function gcra.look(...)`. In scripts the functions are
 * locals, which can be left out and are called without a look-up: `local function gcra_look(...)`.
 *
 * @param {{ name: string, file: string, source: string }} file
 * @returns {Algorithm}
 */
function readAlgorithm({ name, file, source }) {
  const local = identifier(name);
  const [table, ...statements] = statementsOf(file, source, local);
  const traits = /^local (\w+) = \{ (params = \d+\b.*) \}\n$/.exec(table?.text ?? '');
  if (traits?.[1] !== local) throw new Error(`${file}: begin with local ${local} = { params = <count> }.`);
  const functions = statements.flatMap(({ defines }) => defines).map((each) => each.slice(local.length + 1));
  return { name, local, traits: traits[2] ?? '', functions, statements };
}

/**
 * @param {string} file
 * @param {string} source
 * @param {string} [algorithm] the local of an algorithm
 * @returns {Statement[]}
 */
function statementsOf(file, source, algorithm) {
  const tokens = tokenize(source);
  if (algorithm !== undefined) flatten(tokens, algorithm);
  return parse(file, source).map(({ type, range: [from, to], ...node }) => {
    const own = tokens.filter(({ range }) => from <= range[0] && range[1] <= to);
    const isOfTable = type === 'FunctionDeclaration' && 'isLocal' in node && !node.isLocal;
    const { text, lines } = strip(source, own, isOfTable ? 'local ' : '');
    const defines = /^local (?:function )?(\w+(?:, \w+)*)/.exec(text)?.[1]?.split(', ') ?? [];
    return { file, text, lines, defines, uses: new Set(own.map((token) => token.text)) };
  });
}

/**
 * The functions of an algorithm's table become locals: `gcra.look` is `gcra_look`.
 * @param {Token[]} tokens
 * @param {string} algorithm
 */
function flatten(tokens, algorithm) {
  for (let i = 0; i + 2 < tokens.length; i++) {
    const [table, dot, field] = tokens.slice(i, i + 3);
    if (table?.text !== algorithm || dot?.text !== '.' || !field) continue;
    tokens.splice(i, 3, {
      ...table,
      text: `${algorithm}_${field.text}`,
      range: [table.range[0], field.range[1]],
    });
  }
}

/**
 * Joins tokens without comments, blank lines and indentation.
 *
 * @param {string} source
 * @param {Token[]} tokens
 * @param {string} prefix
 */
function strip(source, tokens, prefix) {
  let text = prefix;
  let end = tokens[0]?.range[0];
  /** @type {number[]} */
  const lines = [];
  for (const token of tokens) {
    const gap = source.slice(end, token.range[0]);
    if (gap !== '') text += gap.includes('\n') ? '\n' : ' ';
    lines[text.split('\n').length] ??= token.line;
    text += token.text;
    end = token.range[1];
  }
  return { text: `${text}\n`, lines };
}

/**
 * The statements of a file's top level, if it is valid Lua 5.1.
 *
 * @param {string} file
 * @param {string} source
 * @returns {Node[]}
 */
export function parse(file, source) {
  try {
    return /** @type {Node[]} */ (luaparse.parse(source, { luaVersion: '5.1', ranges: true }).body);
  } catch (error) {
    throw new Error(`${file}: ${/** @type {Error} */ (error).message}`, { cause: error });
  }
}

/** @param {string} source */
function tokenize(source) {
  const lexer = luaparse.parse(source, { wait: true, luaVersion: '5.1', ranges: true });
  /** @type {Token[]} */
  const tokens = [];
  for (let token = lexer.lex(); token.value !== '<eof>'; token = lexer.lex()) {
    const { line, range } = token;
    tokens.push({ text: source.slice(...range), line, range });
  }
  return tokens;
}

/**
 * The generated module: pieces, which are statements in a row that the same scripts keep, and the scripts that consist of them.
 *
 * @param {Chunk[]} shared
 * @param {Algorithm[]} algorithms
 * @param {Script[]} scripts
 */
async function render(shared, algorithms, scripts) {
  /** @type {{ chunk: Chunk, name: string, users: string[], text: string }[]} */
  const pieces = [];
  for (const chunk of [...shared, ...algorithms]) {
    let count = 0;
    for (const statement of chunk.statements) {
      const users = scripts.filter(({ kept }) => kept.has(statement)).map(({ name }) => name);
      const last = pieces.at(-1);
      if (last?.chunk === chunk && last.users.join() === users.join()) last.text += statement.text;
      else pieces.push({ chunk, name: `${identifier(chunk.name)}_${++count}`, users, text: statement.text });
    }
  }
  /**
   * @param {Script} script
   * @param {Chunk | undefined} chunk
   * @param {string} [text]
   */
  const joined = ({ name }, chunk, text = '') => {
    const own = pieces.filter((piece) => piece.chunk === chunk && piece.users.includes(name));
    return [...own.map((piece) => piece.name), ...(text === '' ? [] : [literal(text)])].join(' + ');
  };
  const [common, policies] = shared;
  const used = pieces.filter(({ users }) => users.length > 0);
  const source = [
    '// Generated from the .lua files by npm run lua:build: edit those.',
    ...used.map(({ name, text }) => `const ${name} = ${literal(text)};`),
    '',
    '/** How each script begins, the algorithms of which it has those that it needs, and how it ends. */',
    'export const lua = {',
    ...scripts.flatMap((script) => [
      `'${script.name}': {`,
      `first: ${joined(script, common)},`,
      'algorithms: {',
      ...[...script.algorithms].map(
        ([algorithm, text]) => `'${algorithm.name}': ${joined(script, algorithm, text)},`,
      ),
      '},',
      `last: ${joined(script, policies, script.main)},`,
      '},',
    ]),
    '};',
  ].join('\n');
  const options = await prettier.resolveConfig(join(root, GENERATED));
  return prettier.format(source, { ...options, parser: 'typescript' });
}

/** @param {string} name of a file */
function identifier(name) {
  return name.replaceAll('-', '_');
}

/** @param {string} text */
function literal(text) {
  return `\`${text.replace(/[\\`]|\$\{/g, '\\$&')}\``;
}
