import { Command, type Option } from 'commander';
import {
  checkDimension,
  checkKey,
  checkNote,
  DEFAULT_SUBNET,
  NOTE_LENGTHS,
  POLICY_GRAMMAR,
  type ChangeOptions,
  type KeyOptions,
} from 'headgate/admin';
import { orUsage, usageError } from './errors.js';
import type { Io } from './io.js';

export interface Options {
  readonly redis?: string;
  readonly sqlite?: string;
  readonly cluster?: boolean;
  readonly sentinel?: string;
  readonly prefix?: string;
  readonly hashKeysFile?: string;
  readonly timeout: string;
  readonly name?: string;
  readonly policy?: readonly string[];
  readonly policies?: string;
  readonly tier?: string;
  readonly ipv6Subnet?: number;
  readonly raw?: boolean;
  readonly dimension?: string;
  readonly reason?: string;
  readonly by?: string;
  readonly force?: boolean;
  readonly limit?: number;
}

/** The options of commands that change a key in several limiters. */
export interface NamesOptions extends Omit<Options, 'name'> {
  readonly name?: readonly string[];
  readonly allLimiters?: boolean;
}

/** The default of --limit for people, rows of a log or of overrides. */
const DEFAULT_LIMIT = 100;

/** A method that commander's types do not declare. */
const { unknownOption } = Command.prototype as unknown as {
  unknownOption(this: Command, flag: string): void;
};

export class CliCommand extends Command {
  override createCommand(name?: string): CliCommand {
    return new CliCommand(name);
  }

  /** Refuses an option that is passed twice, because commander would ignore the first value. */
  override addOption(option: Option): this {
    super.addOption(option);
    if (option.isBoolean() || REPEATABLE.has(option.parseArg)) return this;
    let count = 0;
    return this.on(`option:${option.name()}`, () => {
      if (++count === 2)
        throw usageError(
          `${option.long}: passed twice. Pass it once, or run the command once for each value.`,
        );
    });
  }

  /** Does not quote the value of an unknown option, because it may be a password. */
  unknownOption(flag: string): void {
    unknownOption.call(this, /^(?:--[\w-]*|-.?)/u.exec(flag)![0]);
  }

  example(words: string): this {
    return this.addHelpText('after', `\nExample:\n  headgate ${words}`);
  }

  /** Describes the JSON that the command writes. Scripts rely on it. */
  answers(text: string): this {
    const width = (): number => this.configureOutput().getOutHelpWidth!();
    return this.addHelpText('after', () => `\n${this.createHelp().boxWrap(`With --json: ${text}`, width())}`);
  }

  serverOptions(): this {
    return this.option(
      '--redis <url>',
      'redis://[user:password@]host[:port][/database], rediss:// for TLS (env: REDIS_URL)',
    )
      .option('--sqlite <file>', 'the file of a sqliteStore, in place of a server')
      .option('--cluster', 'the server is a node of a cluster')
      .option('--sentinel <name>', 'the server is a sentinel, and this is its name of the primary')
      .option('--prefix <text>', "the prefix of the store's keys on a server (default: hg)")
      .option(
        '--hash-keys-file <file>',
        "a file with the secret of the store's option hashKeys (env: HEADGATE_HASH_KEYS, the secret itself)",
      )
      .option('--timeout <time>', 'the time limit for an answer', '5s');
  }

  nameOption(): this {
    return this.option('--name <scope>', "the limiter's name, as in `headgate list`", checkName);
  }

  namesOption(all = 'all limiters that check for such bans'): this {
    return this.option('--name <scope>', "the limiter's name, repeatable", collectNames).option(
      '--all-limiters',
      all,
    );
  }

  policyOptions(): this {
    return this.option(
      '--policy <text>',
      `a policy of the limiter, repeatable: ${POLICY_GRAMMAR}`,
      collect,
    ).option('--policies <file>', 'the policies as JSON: an array, or an object of limiters by name');
  }

  limitsOptions(): this {
    return this.policyOptions().option(
      '--tier <name>',
      "use the policies of this tier of the limiter's `tiers`",
    );
  }

  subnetOption(otherwise = String(DEFAULT_SUBNET)): this {
    return this.option(
      '--ipv6-subnet <bits>',
      `the prefix length of the network that is the key of an IPv6 address, as in the limiter's option ipv6Subnet (default: ${otherwise})`,
      integer('--ipv6-subnet', 1, 128),
    );
  }

  keyOptions(): this {
    return this.subnetOption(`the published length of the limiter, or ${DEFAULT_SUBNET}`)
      .option('--raw', 'take the key literally, even if it looks like an address')
      .option(
        '--dimension <name>',
        'the dimension of the key, for policies with `by`; the key is then taken literally',
        (text) => dimensionOf('--dimension', text),
      );
  }

  /** The options of commands that change something: notes for later readers. */
  noteOptions(): this {
    return this.option('--reason <text>', 'the reason, for the log').option(
      '--by <name>',
      'the operator, for the log (env: HEADGATE_BY; default: the user of the system)',
    );
  }

  forceOption(): this {
    return this.option(
      '--force',
      'ban even if no limiter of this name is published, or if none checks for bans',
    );
  }

  limitOption(
    what = `the maximum number of rows, or 0 for all (default: ${DEFAULT_LIMIT}, with --json 0)`,
  ): this {
    const fix = 'pass a whole number, or 0 for all.';
    return this.option('--limit <n>', what, integer('--limit', 0, 999_999_999, fix));
  }
}

/** Creates a parser of whole numbers, which throws a CliError `USAGE`. */
export function integer(
  flag: string,
  least: number,
  most: number,
  fix = `pass a whole number from ${least} to ${most}.`,
): (text: string) => number {
  return (text) => {
    const number = /^\d{1,13}$/.test(text) ? Number(text) : NaN;
    if (number >= least && number <= most) return number;
    throw usageError(`${flag}: ${fix}`);
  };
}

export const collect = (value: string, before: readonly string[] = []) => [...before, value];

const collectNames = (name: string, before?: readonly string[]) => collect(checkName(name), before);

/** The parsers of options that can be passed several times. */
const REPEATABLE: ReadonlySet<unknown> = new Set([collect, collectNames]);

function checkName(name: string): string {
  if (name.length < 1 || name.length > 256) throw usageError('--name: pass 1 to 256 characters.');
  return name;
}

/** @throws CliError `USAGE` unless it is a dimension's name */
export const dimensionOf = (flag: string, text: unknown): string => orUsage(() => checkDimension(flag, text));

/** @throws CliError `USAGE` without a name, because acting on a guessed scope would be worse than asking */
export function nameOf({ name }: { readonly name?: string | undefined }): string {
  if (name !== undefined) return name;
  throw usageError(
    '--name: missing. Pass the name of the limiter: --name api. A limiter without a name is called default. `headgate list` shows the ' +
      'names.',
  );
}

/** The names of `namesOption`. @throws CliError `USAGE` without a name, or with both options */
export function namesOf({ name, allLimiters = false }: NamesOptions): readonly string[] | 'all' {
  if (allLimiters && name) throw usageError('--name, --all-limiters: pass one of them.');
  if (allLimiters) return 'all';
  if (name === undefined) nameOf({});
  return name!;
}

/** The maximum number of rows: --limit, where 0 means all. */
export function limitOf({ limit }: Pick<Options, 'limit'>, { json }: Io, enough = DEFAULT_LIMIT): number {
  return limit === undefined ? (json ? Infinity : enough) : limit || Infinity;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` for a text that is blank, or too long */
export function noteOf({ reason, by }: Pick<Options, 'reason' | 'by'>, { env }: Io): ChangeOptions {
  const user = env.SUDO_USER || env.USER;
  const named = by ?? (env.HEADGATE_BY || user?.slice(0, NOTE_LENGTHS.by) || undefined);
  const note = { ...(named !== undefined && { by: named }), ...(reason !== undefined && { reason }) };
  checkNote('--by, --reason', note);
  return note;
}

/** The options that determine the meaning of a key. @param given the key, which is checked. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
export function keyOptionsOf(
  { raw, dimension, ipv6Subnet }: Omit<Options, 'name'>,
  given?: string,
): KeyOptions {
  const options = { raw, dimension, ipv6Subnet };
  if (given !== undefined) checkKey(given, options);
  return options;
}
