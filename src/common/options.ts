import { invalidOption } from './errors.js';
import { toMilliseconds, toText, MAX_DURATION_MS, type Duration } from './duration.js';
import {
  checkBoolean,
  checkChoice,
  checkFunction,
  checkInteger,
  checkNumber,
  checkShape,
} from './validate.js';

/** The values that an option accepts. */
export interface Row<Given> {
  /** The accepted values, for docs/options.md. */
  readonly type: string;
  /** The default, as a user would pass it. */
  readonly default?: unknown;
  /** Exists only for the compiler, which compares the row with the option's public type. */
  readonly accepts?: (given: Given) => Given;
}

/** A row of an option table: type, check and default of one option. */
export interface Option<Given, Value> extends Row<Given> {
  /**
   * Checks a given value, or returns the default if the value is `undefined`.
   *
   * @param option the option's name, for the message
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`
   */
  readonly read: (option: string, given: unknown) => Value;
}

/** A row for each option of a public type, so that a missing, superfluous or wrongly typed row is an error of the compiler. */
export type OptionTable<Options> = {
  readonly [Name in keyof Options]-?: Row<Exclude<Options[Name], undefined>>;
};

type Rows = Readonly<Record<string, Omit<Option<never, unknown>, 'accepts'>>>;

/** The checked values of a table's options. */
export type OptionValues<Table extends Rows> = {
  readonly [Name in keyof Table]: ReturnType<Table[Name]['read']>;
};

/** Reads the options of a table, in the table's order. Names that are not in the table are ignored. @param prefix of the names in messages */
export function readOptions<Table extends Rows>(
  table: Table,
  options: object,
  prefix = '',
): OptionValues<Table> {
  const values = Object.entries(table).map(([name, { read }]) => [
    name,
    read(prefix + name, options[name as keyof typeof options]),
  ]);
  return Object.fromEntries(values) as OptionValues<Table>;
}

/** Checks the names of the options, and reads them. @param what the name of the object that contains them, for messages */
export function checkOptionsOf<Table extends Rows>(
  what: string,
  table: Table,
  options: object,
): OptionValues<Table> {
  checkShape(what, options, Object.keys(table));
  return readOptions(table, options, `${what}.`);
}

type Read<Value, Default> = undefined extends Default ? Value | undefined : Value;

/** An option with a check of its own. */
export function optional<Given, Value, Default = undefined>(
  type: string,
  check: (option: string, given: unknown) => Value,
  otherwise?: Default,
): Option<Given, Read<Value, Default>> {
  return {
    type,
    default: otherwise,
    read(option, given) {
      const value = given === undefined ? otherwise : given;
      return (value === undefined ? undefined : check(option, value)) as Read<Value, Default>;
    },
  };
}

/** A whole number. */
export function integer<Default extends number | undefined = undefined>(
  least: number,
  most: number,
  otherwise?: Default,
): Option<number, Read<number, Default>> {
  return optional(
    `${least} to ${most}`,
    (option, given) => checkInteger(option, given, least, most),
    otherwise as Default,
  );
}

/** Any number of a range. @param isOpen whether `least` itself is excluded */
export function number<Default extends number | undefined = undefined>(
  least: number,
  most: number,
  otherwise?: Default,
  isOpen = false,
): Option<number, Read<number, Default>> {
  const type = isOpen ? `above ${least}, up to ${most}` : `${least} to ${most}`;
  return optional(
    type,
    (option, given) => checkNumber(option, given, least, most, isOpen),
    otherwise as Default,
  );
}

/** A length of time. Its value is in ms. */
export function duration<Default extends Duration | undefined = undefined>(
  otherwise?: Default,
  { least = 1, most = MAX_DURATION_MS }: { least?: number; most?: number } = {},
): Option<Duration, Read<number, Default>> {
  const type = `duration, ${toText(least)} to ${toText(most)}`;
  return optional(type, (option, given) => toMilliseconds(option, given, least, most), otherwise as Default);
}

/** A length of time, or `false`, which switches a function off. Its value is in ms, or `undefined` for `false`. */
export function durationOrFalse(otherwise: Duration): Option<Duration | false, number | undefined> {
  return optional(
    'duration, or `false`',
    (option, given) => (given === false ? undefined : toMilliseconds(option, given)),
    otherwise,
  );
}

export function boolean(otherwise: boolean): Option<boolean, boolean> {
  return optional('boolean', (option, given) => checkBoolean(option, given, otherwise), otherwise);
}

/** One of several words. */
export function choice<Word extends string, Default extends Word | undefined = undefined>(
  words: readonly Word[],
  otherwise?: Default,
): Option<Word, Read<Word, Default>> {
  const type = words.map((word) => `\`'${word}'\``).join(', ');
  return optional(type, (option, given) => checkChoice(option, given, words), otherwise as Default);
}

/** A function of the user. */
export function fn<F>(type = 'function'): Option<F, F | undefined> {
  return optional(type, (option, given) => checkFunction(option, given) as F);
}

/** An option that is a value, or a function of the user that returns the value. */
export function orFunction<Value, F>(
  type: string,
  check: (option: string, given: unknown) => Value,
  otherwise: Value,
): Option<Value | F, Value | F> {
  return optional(
    `${type}, or a function`,
    (option, given) => (typeof given === 'function' ? (given as F) : check(option, given)),
    otherwise as Value | F,
  );
}

/** The options of a function that is off by default. `true` switches it on with all defaults. The value is `undefined` if it is off. */
export function switched<Given, Table extends Rows>(
  table: Table,
): Option<boolean | Given, OptionValues<Table> | undefined> {
  const names = Object.keys(table).join(', ');
  return optional(`boolean, or an object with: ${names}`, (option, given) => {
    if (given === false) return undefined;
    if (given === true) return readOptions(table, {});
    if (typeof given === 'object') return checkOptionsOf(option, table, given as object);
    throw invalidOption(option, given, `Pass true, or an object with: ${names}.`);
  });
}

/** Like `optional`, with a check that also receives `undefined` and returns the default for it. */
export function custom<Given, Value>(
  type: string,
  read: (option: string, given: unknown) => Value,
  otherwise?: unknown,
): Option<Given, Value> {
  return { type, default: otherwise, read };
}

/** An option whose check needs other options, too, and follows later. */
export function dependent<Given>(type: string, otherwise?: unknown): Option<Given, Given | undefined> {
  return { type, default: otherwise, read: (_, given) => given as Given | undefined };
}
