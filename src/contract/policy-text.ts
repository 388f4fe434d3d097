import { DEFAULT_ALGORITHM, POLICY_TABLE, type Policy, type PolicyField } from '../algorithms/index.js';
import { UNLIMITED_FIX } from '../algorithms/fields.js';
import { anchorText, type Period } from '../algorithms/periods.js';
import { zoneName } from '../algorithms/zone-name.js';
import { exactMilliseconds, isAmbiguous, toText } from '../common/duration.js';
import { HeadgateError, invalidOption, show, showOption } from '../common/errors.js';
import { isSecretive, isSecretOption } from '../common/shown.js';
import type { CompiledPolicy } from './policy.js';

/** The algorithms' names, each with the fields of its policies. */
export type Kinds = ReadonlyMap<string, { readonly fields: readonly string[] }>;

/** The notation of a field's value. */
type Form = 'number' | 'time' | 'word' | 'zone' | 'anchor' | 'percents' | 'nothing';

interface Word {
  readonly word: string;
  readonly field: string;
  readonly form: Form;
  /** Values without a word before them. */
  readonly bare?: RegExp;
  /** The value of a word that takes no value. */
  readonly means?: unknown;
  /** The value of a policy without the word, unless equal to the default of the field's row. The canonical text omits the value. */
  readonly otherwise?: (policy: Fields) => unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/** The fields without a word of their own, which come first. */
type Leading = 'name' | 'algorithm' | 'limit' | 'window' | 'lease' | 'period';

/** The notation of each field after the quota, in the order of the canonical text. */
const FORMS: Readonly<Record<Exclude<PolicyField, Leading>, Omit<Word, 'field'>>> = {
  timeZone: {
    word: 'time-zone',
    form: 'zone',
    bare: /^(UTC|[a-z]\w+\/[\w+/-]+|[+-]\d\d:\d\d)$/i,
  },
  anchor: {
    word: 'anchor',
    form: 'anchor',
    otherwise: ({ period }) => anchorText(period as Period, undefined),
  },
  by: { word: 'by', form: 'word' },
  share: { word: 'share', form: 'word' },
  weight: { word: 'weight', form: 'number' },
  burst: { word: 'burst', form: 'number', otherwise: ({ limit }) => limit },
  segments: { word: 'segments', form: 'number' },
  maxDelay: { word: 'max-delay', form: 'time' },
  unit: { word: 'unit', form: 'word' },
  count: { word: 'attempts', form: 'nothing', means: 'attempts' },
  shadow: { word: 'shadow', form: 'nothing', means: true },
  thresholds: { word: 'thresholds', form: 'percents' },
};
const WORDS: readonly Word[] = Object.entries(FORMS).map(([field, word]) => ({
  field,
  otherwise: () => POLICY_TABLE[field as PolicyField].default,
  ...word,
}));

/** The time span of the limit. Each algorithm has exactly one such field. */
const SPANS: readonly { readonly field: string; readonly form: Form }[] = [
  { field: 'window', form: 'time' },
  { field: 'lease', form: 'time' },
  { field: 'period', form: 'word' },
];

/** The grammar in one line, for help and errors. */
export const POLICY_GRAMMAR = `[name=][algorithm ]limit/window ${WORDS.map(usageOf).join(' ')}`;

const PERCENT = /^\d+(\.\d+)?%$/;

const EXAMPLE = "'100/1m', 'token-bucket 20/1s burst 40'.";

function usageOf({ word, form }: Word): string {
  const values = {
    ...{ number: ' n', time: ' time', word: ' name', zone: ' name' },
    ...{ anchor: ' day', percents: ' n% ...', nothing: '' },
  };
  const value = values[form];
  return `[${word}${value}]`;
}

interface Token {
  readonly text: string;
  /** The position of the token's first character, counted from 1. */
  readonly at: number;
  /** The token's length in the text, if a slash between spaces makes it longer than `text`. */
  readonly length?: number;
}

export interface ParsedPolicy {
  readonly policy: Policy;
  /** Adds to an error about a field the position of the field's word in the text. */
  readonly explain: (error: unknown) => unknown;
}

/**
 * Reads a policy from text: `[name=][algorithm ]limit/window`, followed by words, as in `100/1m` and `burst=token-bucket 20/1s burst 40`.
 * Double quotes enclose a name with spaces, quotes or `=`. For a concurrency policy, the window is the lease.
 *
 * @param what the text's place in the options, for messages
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` with the wrong word, its position, and a correction
 */
export function parsePolicy(what: string, text: string, kinds: Kinds): ParsedPolicy {
  return new Parser(what, text, kinds).parse();
}

class Parser {
  readonly #what: string;
  readonly #text: string;
  readonly #kinds: Kinds;
  readonly #tokens: Token[];
  readonly #policy: Record<string, unknown> = {};
  readonly #origins = new Map<string, Token>();

  constructor(what: string, text: string, kinds: Kinds) {
    this.#what = what;
    this.#text = text;
    this.#kinds = kinds;
    const { name, rest } = splitName(text);
    if (name) this.#set('name', name.text, name);
    this.#tokens = tokensOf(text, rest);
  }

  parse(): ParsedPolicy {
    const fields = this.#takeAlgorithm();
    this.#takeQuota(fields);
    const words = WORDS.filter(({ field }) => fields.includes(field));
    for (let token = this.#tokens.shift(); token; token = this.#tokens.shift()) {
      const word = words.find((known) => known.word === token.text || known.bare?.test(token.text));
      if (!word) throw this.#problem(token, this.#unknown(token, words));
      if (word.field in this.#policy) throw this.#problem(token, 'appears twice.');
      const isBare = word.word !== token.text;
      this.#set(word.field, isBare ? token.text : this.#takeValue(token, word), token);
    }
    return { policy: this.#policy as unknown as Policy, explain: (error) => this.#explain(error) };
  }

  #set(field: string, value: unknown, token: Token): void {
    this.#policy[field] = value;
    this.#origins.set(field, token);
  }

  /** Takes the algorithm's name, if present. @returns the fields of the algorithm's policies */
  #takeAlgorithm(): readonly string[] {
    const first = this.#tokens[0];
    if (!first || !/^[a-z]/i.test(first.text)) return this.#kinds.get(DEFAULT_ALGORITHM)!.fields;
    const algorithm = first.text.toLowerCase().replaceAll('_', '-');
    const kind = this.#kinds.get(algorithm);
    if (!kind) {
      const known = [...this.#kinds.keys()].join(', ');
      const fix = algorithm.startsWith('unlimited')
        ? UNLIMITED_FIX
        : `Use one of ${known}, or omit it for ${DEFAULT_ALGORITHM}.`;
      throw this.#problem(first, `is not an algorithm. ${fix}`);
    }
    this.#set('algorithm', algorithm, first);
    this.#tokens.shift();
    return kind.fields;
  }

  #takeQuota(fields: readonly string[]): void {
    const token = this.#tokens.shift();
    if (!token) {
      const text = `${this.#what}: ${showOption(this.#what, this.#text)} is not a policy: the quota is missing. Write a policy like ${EXAMPLE}`;
      throw new HeadgateError('HEADGATE_INVALID_OPTION', text);
    }
    const [limit = '', length, ...more] = token.text.split('/');
    if (length === undefined || more.length > 0) {
      throw this.#problem(token, `is not a quota. Write the limit, a slash and the window, as in ${EXAMPLE}`);
    }
    const span = SPANS.find(({ field }) => fields.includes(field))!;
    const limitToken = { text: limit, at: token.at };
    const spanToken = { text: length, at: token.at + (token.length ?? token.text.length) - length.length };
    this.#set('limit', this.#read(limitToken, 'number'), limitToken);
    this.#set(span.field, this.#read(spanToken, span.form), spanToken);
  }

  #takeValue(token: Token, { word, form, means }: Word): unknown {
    if (form === 'nothing') return means;
    if (form === 'percents' && this.#isPercent()) return this.#percents();
    const value = this.#tokens.shift();
    if (value) return this.#read(value, form);
    const examples = {
      ...{ number: '40', time: '2s', word: 'account' },
      ...{ zone: 'Japan', anchor: '15', percents: '80% 100%' },
    };
    const example = examples[form];
    throw this.#problem(token, `needs a value: '${word} ${example}'.`);
  }

  #isPercent(): boolean {
    return PERCENT.test(this.#tokens[0]?.text ?? '');
  }

  /** Takes percentages up to the next word. They become fractions. */
  #percents(): number[] {
    const fractions: number[] = [];
    while (this.#isPercent()) fractions.push(Math.round(parseFloat(this.#tokens.shift()!.text) * 1e4) / 1e6);
    return fractions;
  }

  #read(token: Token, form: Form): unknown {
    if (form === 'percents') throw this.#problem(token, "is not a percentage: 'thresholds 80% 100%'.");
    if (form === 'number') return this.#number(token);
    if (form === 'anchor') return /^\d+$/.test(token.text) ? Number(token.text) : token.text;
    return form === 'time' ? this.#time(token) : token.text;
  }

  /** Reads digits. `_` and `,` may separate groups of them. */
  #number(token: Token): number {
    if (!/^\d+([_,]\d+)*$/.test(token.text)) {
      throw this.#problem(token, `is not a whole number. Write a policy like ${EXAMPLE}`);
    }
    return Number(token.text.replace(/[_,]/g, ''));
  }

  #time(token: Token): string {
    const text = /^[a-z]+$/i.test(token.text) ? `1${token.text}` : token.text;
    try {
      // Refuses a number without a unit, which readers could mistake for seconds.
      if (!/^\d+$/.test(text)) {
        exactMilliseconds('window', text, { least: 0 });
        return text;
      }
    } catch {
      // The error below also contains the position.
    }
    if (isAmbiguous(text)) {
      const minutes = text.replace('M', 'm');
      throw this.#problem(
        token,
        `has the ambiguous unit M. Write '${minutes}' for minutes, or 'calendar 10000/month' for calendar months.`,
      );
    }
    if (/^(month|year)s?$/i.test(token.text)) {
      const period = token.text.toLowerCase().replace(/s$/, '');
      throw this.#problem(token, `is a period of the calendar. Write 'calendar 10000/${period}'.`);
    }
    throw this.#problem(
      token,
      "is not a length of time. Write a number with a unit, up to 366 days: '500ms', '10s', '15m', '1h', '30d'.",
    );
  }

  #unknown({ text }: Token, words: readonly Word[]): string {
    const known = words.map(({ word }) => word).join(', ');
    const elsewhere = WORDS.some(({ word }) => word === text);
    const algorithm = (this.#policy['algorithm'] as string | undefined) ?? DEFAULT_ALGORITHM;
    return elsewhere
      ? `is not for ${algorithm}. Words after its quota: ${known}.`
      : `is not known here. Words after the quota: ${known}.`;
  }

  /** Whether the text could be a secret. Then each part of the text could be one. */
  get #isSecret(): boolean {
    return isSecretive(this.#text) || isSecretOption(this.#what);
  }

  #problem(token: Token, what: string): HeadgateError {
    if (this.#isSecret) return invalidOption(this.#what, this.#text, `Write a policy like ${EXAMPLE}`);
    return new HeadgateError(
      'HEADGATE_INVALID_OPTION',
      `${this.#what}: ${show(this.#text)}, at character ${token.at}: ${show(token.text)} ${what}`,
    );
  }

  #explain(error: unknown): unknown {
    for (const [field, token] of this.#origins) {
      if (!(error instanceof HeadgateError && error.message.startsWith(`${this.#what}.${field}: `))) continue;
      if (this.#isSecret) return error;
      const place = `It is ${show(token.text)} at character ${token.at} of ${show(this.#text)}.`;
      return new HeadgateError(error.code, `${error.message} ${place}`);
    }
    return error;
  }
}

/** Splits off the name before the first `=` of the first word. @returns the name, and the index at which the rest of the text begins */
function splitName(text: string): { name?: Token; rest: number } {
  const start = text.search(/\S|$/);
  const quoted = /^"((?:[^"\\]|\\.)*)"\s*=/.exec(text.slice(start));
  if (quoted) return { name: { text: unquoted(quoted[1]!), at: start + 1 }, rest: start + quoted[0].length };
  const plain = /^([^\s="]+)=/.exec(text.slice(start));
  if (!plain) return { rest: start };
  return { name: { text: plain[1]!, at: start + 1 }, rest: start + plain[0].length };
}

/** Splits a text into words. A slash joins its neighbours even between spaces, and `burst=40` is read as `burst 40`. */
function tokensOf(text: string, from: number): Token[] {
  const tokens: Token[] = [];
  for (const { 0: word, index } of text.slice(from).matchAll(/\S+(\s*\/\s*\S+)?/g)) {
    const option = /^[a-z-]+(?==.)/.exec(word)?.[0];
    const at = from + index + 1;
    if (tokens.length > 0 && option) {
      tokens.push({ text: option, at }, { text: word.slice(option.length + 1), at: at + option.length + 1 });
    } else tokens.push({ text: word.replace(/\s*\/\s*/, '/'), at, length: word.length });
  }
  return tokens;
}

function unquoted(text: string): string {
  return text.replace(/\\(.)/g, '$1');
}

/** A name, in quotes if needed. An unquoted `[` or `{` at the start would look like JSON. */
function nameText(name: string): string {
  return /^[^\s="[{]+$/.test(name) ? name : `"${name.replace(/["\\]/g, '\\$&')}"`;
}

/**
 * The canonical text of a policy. Policies with the same meaning have the same text, in whatever form they were given.
 *
 * @param alone whether the policy is the limiter's only policy, whose name is omitted if it is `default`
 */
export function canonicalText({ name, algorithm, source }: CompiledPolicy, alone = true): string {
  const policy = source as unknown as Fields;
  const span = SPANS.find(({ field }) => policy[field] !== undefined)!;
  const words = [
    ...(algorithm === DEFAULT_ALGORITHM ? [] : [algorithm]),
    `${source.limit}/${written(policy[span.field], span.form, policy)}`,
    ...WORDS.flatMap((word) => wordsOf(policy, word)),
  ];
  return `${alone && name === 'default' ? '' : `${nameText(name)}=`}${words.join(' ')}`;
}

function wordsOf(policy: Fields, { word, field, form, bare, otherwise }: Word): string[] {
  if (policy[field] === undefined) return [];
  const value = written(policy[field], form, policy);
  if (otherwise && value === written(otherwise(policy), form, policy)) return [];
  if (bare?.test(value)) return [value];
  return form === 'nothing' ? [word] : [word, value];
}

/** The text of a value. Times have the largest unit that gives a whole number. */
function written(value: unknown, form: Form, { period }: Fields): string {
  if (form === 'anchor') return anchorText(period as Period, value);
  if (form === 'zone') return zoneName(value as string);
  if (form === 'percents') return percentsText((value ?? []) as readonly number[]);
  return form === 'time' ? toText(exactMilliseconds('time', value, { least: 0 })) : String(value);
}

function percentsText(fractions: readonly number[]): string {
  const sorted = [...new Set(fractions.map((fraction) => Math.round(fraction * 1000)))].sort((a, b) => a - b);
  return sorted.map((thousandths) => `${thousandths / 10}%`).join(' ');
}
