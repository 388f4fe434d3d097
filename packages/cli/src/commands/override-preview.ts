// `headgate override --dry-run`: the changes that the command would make.
import { DEFAULT_DIMENSION, dimensionJson, type OverrideEffect, type OverrideWish } from 'headgate/admin';
import { many, printable } from '../format.js';
import { warnOnce, writeAnswer, type Io } from '../io.js';
import { prefixOf } from '../keys.js';
import { changeText } from './override-text.js';

/** A change, and its effect if it were made. */
export interface Preview {
  readonly wish: OverrideWish;
  readonly effect: OverrideEffect;
}

export async function reportPreview(previews: readonly Preview[], name: string, io: Io): Promise<void> {
  warnOnce(
    io,
    previews.flatMap(({ effect }) => effect.warnings),
  );
  const documents = previews.map(({ wish, effect: { effect, before } }) => {
    const { key, dimension = DEFAULT_DIMENSION, change } = wish;
    const whose = key === undefined ? { all: true } : { key, ...dimensionJson(dimension) };
    return { name, ...whose, change: change ?? null, effect, before: before?.change ?? null, dryRun: true };
  });
  const document = documents.length === 1 ? documents[0] : { name, overrides: documents, dryRun: true };
  await writeAnswer(io, document, () => {
    const lines = previews.map((each) => `${sentence(each)} in ${printable(name)}.\n`);
    return `${lines.join('')}Nothing was changed (${many(previews.length, 'change')}).\n`;
  });
}

function sentence({ wish, effect: { effect, before } }: Preview): string {
  const { key, dimension = DEFAULT_DIMENSION, change } = wish;
  const owner = key === undefined ? 'All keys' : prefixOf(dimension) + printable(key);
  if (change === undefined)
    return before === undefined
      ? `${owner} ${key === undefined ? 'have' : 'has'} no override`
      : `${owner} would have the configured limits again, in place of ${changeText(before.change)}`;
  if (effect === 'same')
    return `${owner} already ${key === undefined ? 'have' : 'has'} ${changeText(change)}`;
  const replaced = before === undefined ? '' : ` in place of ${changeText(before.change)}`;
  return `${owner} would have ${changeText(change)}${replaced}`;
}
