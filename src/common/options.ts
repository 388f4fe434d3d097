import { toMilliseconds, toText, MAX_DURATION_MS, type Bounds, type Duration } from './duration.js';
import { invalidOption } from './errors.js';
import * as validate from './validate.js';
import { compileWarnings, warningBy, type Warnings } from './warnings.js';

export interface Row<Given> {
  /** The accepted values, for the page of options. */
  readonly type: string;
  /** The default, as a user would pass it. */
  readonly default?: unknown;
  /** Exists only for the compiler, which compares the row with the option's public type. */
  readonly accepts?: (given: Given) => Given;
}

type Check<Value> = (option: string, given: unknown) => Value;

/** A row of an option table: type, check and default of one option. */
export interface Option<Given, Value> extends Row<Given> {
  /** Checks a given value, or returns the default for `undefined`. @throws HeadgateError `HEADGATE_INVALID_OPTION` with the option's name */
  readonly read: Check<Value>;
}

/** A row for each option of a public type, so that a missing, superfluous or wrongly typed row is an error of the compiler. */
export type OptionTable<Options> = {
  readonly [Name in keyof Options]-?: Row<Exclude<Options[Name], undefined>>;
};

type Rows = Readonly<Record<string, Omit<Option<never, unknown>, 'accepts'>>>;

export type OptionValues<Table extends Rows> = {
  readonly [Name in keyof Table]: ReturnType<Table[Name]['read']>;
};

/** Reads the options of a table, and ignores names that are not in the table. @param prefix of the names in messages */
export function readOptions<Table extends Rows>(table: Table, options: object, prefix = '') {
  const { warnings } = options as { warnings?: Warnings };
  const read = (): OptionValues<Table> => {
    const values = Object.entries(table).map(([name, row]) => [
      name,
      row.read(prefix + name, options[name as keyof typeof options]),
    ]);
    return Object.fromEntries(values) as OptionValues<Table>;
  };
  return warnings === undefined ? read() : warningBy(compileWarnings(warnings), read);
}

/** Checks the names of options, and reads the options. @param what the name of the surrounding object, for messages */
export function checkOptionsOf<Table extends Rows>(what: string, table: Table, options: object) {
  validate.checkShape(what, options, Object.keys(table));
  return readOptions(table, options, `${what}.`);
}

type Read<Value, Default> = undefined extends Default ? Value | undefined : Value;

export function optional<Given, Value, Default = undefined>(
  type: string,
  check: Check<Value>,
  otherwise?: Default,
): Option<Given, Read<Value, Default>> {
  const read = (option: string, given: unknown): unknown => {
    const value = given === undefined ? otherwise : given;
    return value === undefined ? undefined : check(option, value);
  };
  return { type, default: otherwise, read: read as Check<Read<Value, Default>> };
}

/** Like `optional`, with a check that also receives `undefined` and returns the default. */
export const custom = <Given, Value>(type: string, read: Check<Value>, otherwise?: unknown) =>
  ({ type, default: otherwise, read }) as Option<Given, Value>;

/** An option whose check needs other options, too, and follows later. */
export const dependent = <Given>(type: string, otherwise?: unknown) =>
  custom<Given, Given | undefined>(type, (_, given) => given as Given | undefined, otherwise);

export const integer = <D extends number | undefined = undefined>(
  least: number,
  most: number,
  otherwise?: D,
) =>
  optional<number, number, D>(
    `${least} to ${most}`,
    (option, given) => validate.checkInteger(option, given, least, most),
    otherwise,
  );

/** Any number of a range. @param isOpen whether `least` itself is excluded */
export const number = <D extends number | undefined = undefined>(
  ...[least, most, otherwise, isOpen = false]: [least: number, most: number, otherwise?: D, isOpen?: boolean]
) =>
  optional<number, number, D>(
    isOpen ? `above ${least}, up to ${most}` : `${least} to ${most}`,
    (option, given) => validate.checkNumber(option, given, [least, most], isOpen),
    otherwise,
  );

/** A length of time. Its value is in ms. */
export const duration = <D extends Duration | undefined = undefined>(otherwise?: D, bounds: Bounds = {}) =>
  optional<Duration, number, D>(
    `duration, ${toText(bounds.least ?? 1)} to ${toText(bounds.most ?? MAX_DURATION_MS)}`,
    (option, given) => toMilliseconds(option, given, bounds),
    otherwise,
  );

/** A length of time, or `false`, which switches a function off. Its value is in ms, or `undefined` for `false`. */
export const durationOrFalse = (otherwise: Duration) =>
  optional<Duration | false, number | undefined, Duration>(
    'duration, or `false`',
    (option, given) => (given === false ? undefined : toMilliseconds(option, given)),
    otherwise,
  );

export const boolean = (otherwise: boolean) =>
  custom<boolean, boolean>(
    'boolean',
    (option, given) => validate.checkBoolean(option, given, otherwise),
    otherwise,
  );

export const choice = <Word extends string>(words: readonly Word[], otherwise: Word) =>
  optional<Word, Word, Word>(
    words.map((word) => `\`'${word}'\``).join(', '),
    (option, given) => validate.checkChoice(option, given, words),
    otherwise,
  );

export const fn = <F>() =>
  optional<F, F>('function', (option, given) => validate.checkFunction(option, given) as F);

/** An option that is a value, or a function of the user that returns the value. */
export const orFunction = <Value, F>(type: string, check: Check<Value>, otherwise: Value) =>
  optional<Value | F, Value | F, Value>(
    `${type}, or a function`,
    (option, given) => (typeof given === 'function' ? (given as F) : check(option, given)),
    otherwise,
  );

/** The options of a function that can be off: `true` switches on all defaults, and `undefined` is the value of a function that is off. */
export function switched<Given, Table extends Rows>(table: Table, otherwise?: true) {
  const names = Object.keys(table).join(', ');
  return optional<boolean | Given, OptionValues<Table> | undefined>(
    `boolean, or an object with: ${names}`,
    (option, given) => {
      if (given === false) return undefined;
      if (given === true) return readOptions(table, {});
      if (typeof given === 'object') return checkOptionsOf(option, table, given as object);
      throw invalidOption(option, given, `Pass true, or an object with: ${names}.`);
    },
    otherwise as undefined,
  );
}
