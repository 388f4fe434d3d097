// Measures the English of comments and docs: five figures that show where prose has to be read twice.
import { readFileSync } from 'node:fs';
import { root } from './run.mjs';

/** A line of prose: a comment, or a line of Markdown without its code. */
interface ProseLine {
  file: string;
  line: number;
  text: string;
  /** Whether a comment begins with this line. */
  begins: boolean;
}

const COMMENT =
  /^\s*(?:\/\*\*?|\*(?!\/)|\/\/\/?|--(?! (?:charge|rest|live|costs|overrides|changes|include)\b))\s?(.*?)(?:\*\/)?$/;
const TRAILING_COMMENT = /[;,{)\]]\s+(?:\/\/|--)\s(.*)$/;
const RELATIVE_START = /^(What|Who|Whose|Whom|Whoever|Whatever|How|Which|Where|Until|Why)\b/;

const PATTERNS = {
  'what, who per 1,000 words': /\b(what|who|whose|whom)\b/gi,
  'tell, say per 1,000 words': /\b(tell|tells|told|telling|say|says|said|saying)\b/gi,
  'is no, are none per 1,000 words':
    /(?<!\bthere )\b(is|are|was|were) (no|none)\b(?! (longer|more|less|later|earlier)\b)/gi,
};
const PRONOUNS = /\b(it|its|they|them|their|those|these|this|that|one|ones|others?|all|none)\b/gi;
const WORDS = /[A-Za-z'’]+/g;

/** The figures of a group of files, and the lines that count against them, as `file:line: text`. */
export interface English {
  figures: Record<string, number>;
  lines: string[];
}

export function measureEnglish(files: readonly string[]): English {
  const prose = files.flatMap((file) => (file.endsWith('.md') ? readMarkdown(file) : readComments(file)));
  const count = (pattern: RegExp) =>
    prose.reduce((sum, { text }) => sum + (text.match(pattern)?.length ?? 0), 0);
  const words = count(WORDS) || 1;
  const starts = prose.filter(({ begins, text }) => begins && /^[A-Z]/.test(text));
  const relative = starts.filter(({ text }) => RELATIVE_START.test(text));
  const figures: Record<string, number> = {
    '% of comments that begin with What, Who, How, Which, Where': round(
      (100 * relative.length) / (starts.length || 1),
    ),
  };
  for (const [name, pattern] of Object.entries(PATTERNS))
    figures[name] = round((1000 * count(pattern)) / words);
  figures['pronouns per 100 words'] = round((100 * count(PRONOUNS)) / words);
  const counted = prose.filter(
    (line) =>
      relative.includes(line) || Object.values(PATTERNS).some((pattern) => line.text.search(pattern) >= 0),
  );
  return { figures, lines: counted.map(({ file, line, text }) => `${file}:${line}: ${text}`) };
}

/** Rounds up to a tenth, so that a figure at its goal does not fluctuate. */
const round = (value: number) => Math.ceil(value * 10 - 1e-9) / 10;

function readComments(file: string): ProseLine[] {
  const prose: ProseLine[] = [];
  let previous: string | undefined;
  for (const [index, line] of readLines(file)) {
    const whole = COMMENT.exec(line)?.[1];
    const text = whole ?? TRAILING_COMMENT.exec(line)?.[1];
    if (text !== undefined)
      prose.push({ file, line: index + 1, text: text.trim(), begins: (previous ?? '').trim() === '' });
    previous = whole;
  }
  return prose;
}

function readMarkdown(file: string): ProseLine[] {
  const prose: ProseLine[] = [];
  let code = false;
  for (const [index, line] of readLines(file)) {
    if (/^\s*```/.test(line)) code = !code;
    else if (!code)
      prose.push({ file, line: index + 1, text: line.replace(/`[^`]*`/g, 'X').trim(), begins: false });
  }
  return prose;
}

const readLines = (file: string) => readFileSync(`${root}${file}`, 'utf8').split('\n').entries();
