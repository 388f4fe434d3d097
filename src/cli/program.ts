import { Command, CommanderError } from 'commander';
import manifest from '../../package.json' with { type: 'json' };
import { EXIT, reportOf } from './errors.js';
import { createIo, type Io, type Streams } from './io.js';

/** Each adds its command to the program. */
const commands: readonly ((program: Command, io: Io) => void)[] = [];

/**
 * Runs one command line.
 *
 * @param args what stands after `headgate`
 * @returns what to exit with; it never rejects
 */
export async function run(args: readonly string[], streams: Streams): Promise<number> {
  const io = createIo(streams, asksForJson(args));
  try {
    await createProgram(io).parseAsync(args, { from: 'user' });
    return io.exitCode;
  } catch (error) {
    return fail(io, error);
  }
}

function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end === -1 ? args : args.slice(0, end)).includes('--json');
}

function createProgram(io: Io): Command {
  const program = new Command('headgate')
    .description('Looks at, and changes, the state that limiters keep in Redis or Valkey.')
    .version(manifest.version, '-V, --version', 'print the version')
    .option('--json', 'write JSON, errors too')
    .helpOption('-h, --help', 'print this help')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      // Errors are written by `fail`, all in one way.
      writeErr: () => {},
    })
    .exitOverride();
  for (const register of commands) register(program, io);
  return program;
}

function fail(io: Io, error: unknown): number {
  // Help and version have been written.
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
  const { code, message, exitCode } =
    error instanceof CommanderError
      ? { code: 'USAGE', message: error.message.replace(/^error: /, ''), exitCode: EXIT.usage }
      : reportOf(error);
  io.stderr.write(io.json ? `${JSON.stringify({ code, message })}\n` : `headgate: ${message}\n`);
  return exitCode;
}
