import { createRequire } from 'node:module';
import { CommanderError, type Command } from 'commander';
import { CliCommand } from './command.js';
import * as ban from './commands/ban.js';
import * as bans from './commands/bans.js';
import * as check from './commands/check.js';
import * as dashboard from './commands/dashboard.js';
import * as init from './commands/init.js';
import * as key from './commands/key.js';
import * as limits from './commands/limits.js';
import * as list from './commands/list.js';
import * as log from './commands/log.js';
import * as override from './commands/override.js';
import * as overrides from './commands/overrides.js';
import * as peek from './commands/peek.js';
import * as postgresSchema from './commands/postgres-schema.js';
import * as replay from './commands/replay.js';
import * as reset from './commands/reset.js';
import * as suggest from './commands/suggest.js';
import * as tenants from './commands/tenants.js';
import * as top from './commands/top.js';
import * as unban from './commands/unban.js';
import * as usage from './commands/usage.js';
import { EXIT, reportOf, usageError, type CliError } from './errors.js';
import { complain, createIo, type Io, type Streams } from './io.js';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

/** The commands in the order of the help. */
const commands: readonly { register(program: CliCommand, io: Io): void }[] = [
  limits,
  top,
  list,
  key,
  tenants,
  peek,
  reset,
  ban,
  unban,
  bans,
  override,
  overrides,
  log,
  dashboard,
  replay,
  suggest,
  check,
  usage,
  postgresSchema,
  init,
];

/**
 * Runs one command line.
 *
 * @param args the words after `headgate`
 * @returns the exit code; never rejects
 */
export async function run(args: readonly string[], streams: Streams): Promise<number> {
  const io = createIo(streams, args, { json: has(args, '--json'), isLocal: has(args, '--local') });
  const program = createProgram(io);
  try {
    // Commander also ends help and version with an error.
    await program.parseAsync(args, { from: 'user' });
    return io.exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
    const { exitCode, ...report } = reportOf(
      error instanceof CommanderError ? misread(error, program, args) : error,
    );
    complain(io, report, report.message);
    return exitCode;
  }
}

/** Whether the arguments have an option of all commands. */
function has(args: readonly string[], flag: string): boolean {
  const end = args.indexOf('--');
  return (end === -1 ? args : args.slice(0, end)).includes(flag);
}

function createProgram(io: Io): CliCommand {
  const program = new CliCommand('headgate')
    .description(
      'Shows and changes the state that limiters keep in Redis, Valkey or a file of SQLite. Finds limits from access logs.',
    )
    .version(version, '-V, --version', 'print the version')
    .option('--json', 'write JSON, errors too')
    .option('--local', 'show and read times in the time zone of this machine (default: UTC)')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    // The descriptions also wrap in a terminal of 60 columns.
    .configureHelp({ showGlobalOptions: true, minWidthToWrap: 20 })
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      getOutHelpWidth: () => io.width,
      // `run` writes all errors in the same way.
      writeErr: () => {},
    })
    .exitOverride();
  for (const { register } of commands) register(program, io);
  return program;
}

/** Converts an error of commander into an error that refers to the help. `complain` removes the password of a misplaced URL. */
function misread(error: CommanderError, program: Command, args: readonly string[]): CliError {
  const command = program.commands.find((known) => args.includes(known.name()));
  const help = `headgate ${command ? `${command.name()} ` : ''}--help`;
  const { commands } = command?.commands.length ? command : program;
  const message =
    error.code === 'commander.help'
      ? `a command is missing. Pass one of: ${commands.map((known) => known.name()).join(', ')}.`
      : error.message.replace(/^error: /, '');
  const takesKey = command?.registeredArguments.some((argument) => argument.name() === 'key');
  const isUnknown = error.code === 'commander.unknownOption' && !message.includes('Did you mean');
  const dash =
    isUnknown && takesKey
      ? `\nA key that begins with a dash comes last, after --, as in: headgate ${command!.name()} --name api -- -key`
      : '';
  return usageError(`${message}${dash}\nSee: ${help}`);
}
