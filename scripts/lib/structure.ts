// The reach of features into the files of others, and structures that grow when a feature is a branch and not a folder.
import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { root } from './run.mjs';

/** By feature: its own files, and the words by which files of others name it. */
const FEATURES: Record<string, readonly [own: RegExp, word: RegExp]> = {
  bans: [
    /features\/bans\/|\/bans?\b[^/]*\.(ts|lua)|ban-|-bans?\./,
    /\bban(s|ned|_params|_keys|_at)?\b|BanNote|struck|\bbans\./,
  ],
  overrides: [
    /features\/overrides\/|overrid|change-policy|live-limits|live-change/i,
    /overrid|clientChange|revision/i,
  ],
  thresholds: [/features\/thresholds\/|threshold|crossing/i, /threshold|crossing/i],
  slots: [
    /features\/slots\/|algorithms\/concurrency|http\/held-slots/,
    /concurrency|holdsSlots|LeaseChange|\blease\b/,
  ],
  'shares of units': [
    /features\/shares\/|algorithms\/(shares|sharing)|state\/shares|contract\/shares/,
    /\bshares?Of|isShare|SHARES_KERNEL|--- (if|include) (sharing|shares)|headgate_shared|sharedOf|\bweight\b/,
  ],
  'shares of slots': [/features\/shares\/|algorithms\/shares\/slot-shares/, /slot.?shar/i],
  'request ids': [
    /features\/ids\/|request-ids|\/ids\.lua|claim\.ts/,
    /remembersIds|withIds|idOf|claim\b|--- (if|include) ids|idLifeOf/,
  ],
};

/** The most parameters that a function should take. */
const MAX_PARAMETERS = 4;

/**
 * Measures sources.
 *
 * @param src files of `src`
 * @param all files of `src` and of all packages
 * @returns figures that should become smaller
 */
export function measureStructure(src: readonly string[], all: readonly string[]): Record<string, number> {
  const texts = new Map(all.map((file) => [file, readFileSync(`${root}${file}`, 'utf8')]));
  const lines = new Map(src.map((file) => [file, texts.get(file)!.split('\n')]));
  const figures: Record<string, number> = {};
  for (const [name, [own, word]] of Object.entries(FEATURES)) {
    const foreign = src.filter((file) => !own.test(file));
    const hits = foreign.map((file) => lines.get(file)!.filter((line) => word.test(line)).length);
    figures[`${name}: lines in files of others`] = hits.reduce((sum, count) => sum + count, 0);
    figures[`${name}: files that name it`] =
      src.length - foreign.length + hits.filter((count) => count > 0).length;
  }
  const conditions = src
    .filter((file) => file.endsWith('.lua'))
    .flatMap((file) =>
      [...texts.get(file)!.matchAll(/^--- if\b ?(.*)/gm)].map(([, condition]) => condition!),
    );
  const typescript = src.filter((file) => file.endsWith('.ts'));
  const count = (what: RegExp): number =>
    typescript.reduce((sum, file) => sum + [...texts.get(file)!.matchAll(what)].length, 0);
  return {
    ...figures,
    '`--- if` blocks in Lua': conditions.length,
    'conditions in Lua': new Set(conditions).size,
    'copies of policy sets': count(
      /\{ \.\.\.(set|query\.set|policy|part\.set|subject\.set|own|all)\b.*(policies|ban|overrides|timeout|attempts|shadow|params)/g,
    ),
    'caches per set': count(/\bperSet\(|new WeakMap/g),
    [`functions with more than ${MAX_PARAMETERS} parameters`]: [...texts]
      .filter(([file]) => file.endsWith('.ts'))
      .reduce((sum, [file, text]) => sum + longLists(file, text), 0),
  };
}

/** The functions of a file whose lists of parameters are too long. */
function longLists(file: string, text: string): number {
  let count = 0;
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body) {
      const own = node.parameters.filter(({ name }) => name.getText() !== 'this');
      if (own.length > MAX_PARAMETERS) count++;
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  return count;
}
