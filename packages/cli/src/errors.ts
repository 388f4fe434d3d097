import { HeadgateError } from 'headgate';
import { shortText, withoutPage } from 'headgate/admin';

/** The exit codes for scripts. `docs/cli.md` lists them. */
export const EXIT = {
  ok: 0,
  /** The command was tried and failed. */
  failed: 1,
  /** Nothing was tried, because the command line is wrong. */
  usage: 2,
  /** `peek`: the request would be denied. */
  denied: 3,
  /** The server does not exist, or does not answer in time. */
  unreachable: 4,
  /** There is no limiter of this name, or no such limiter supports the request. */
  unknownScope: 5,
  /** Interrupted by Ctrl-C. The results so far were written. */
  interrupted: 130,
} as const;

const EXIT_OF = {
  USAGE: EXIT.usage,
  FAILED: EXIT.failed,
  UNREACHABLE: EXIT.unreachable,
  UNKNOWN_SCOPE: EXIT.unknownScope,
  NO_BAN: EXIT.unknownScope,
  NO_OVERRIDES: EXIT.unknownScope,
  INTERRUPTED: EXIT.interrupted,
} as const;

type CliErrorCode = keyof typeof EXIT_OF;

/** An error for the user of the command. The message contains the fix. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly code: CliErrorCode;

  constructor(code: CliErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** The error for a wrong command line. The message contains the given value and the correction. */
export function usageError(message: string): CliError {
  return new CliError('USAGE', message);
}

/**
 * Returns the result of `read`. An error of `read` is a fault of the command line. @param say builds the message from the error's
 * message
 */
export function orUsage<T>(read: () => T, say = (message: string): string => message): T {
  try {
    return read();
  } catch (error) {
    throw usageError(say((error as Error).message));
  }
}

/** The error for a command that was tried and failed. */
export function failure(message: string, cause?: unknown): CliError {
  return new CliError('FAILED', message, cause);
}

export function reportOf(error: unknown): { code: string; message: string; exitCode: number } {
  if (error instanceof CliError || error instanceof HeadgateError) {
    const code = error instanceof HeadgateError ? (CLI_CODES[error.code] ?? error.code) : error.code;
    const exitCode = code in EXIT_OF ? EXIT_OF[code as CliErrorCode] : exitCodeOf(error as HeadgateError);
    return { code, message: inFlags(withoutPage(error.message)), exitCode };
  }
  const message = error instanceof Error ? error.message : String(error);
  // For an unknown command, a server quotes the arguments. The arguments of AUTH contain the password.
  const discreet = message.replace(/,? with args beginning with:.*/s, '');
  return { code: 'FAILED', message: discreet, exitCode: EXIT.failed };
}

const CLI_CODES: Readonly<Record<string, CliErrorCode>> = {
  HEADGATE_UNKNOWN_LIMITER: 'UNKNOWN_SCOPE',
  HEADGATE_NO_BANS: 'NO_BAN',
  HEADGATE_OVERRIDES: 'NO_OVERRIDES',
};

const FLAGS: Readonly<Record<string, string>> = {
  ipv6Subnet: '--ipv6-subnet',
  hashKeys: '--hash-keys-file',
  policies: '--policy',
  raw: '--raw',
  force: '--force',
  tier: '--tier',
  name: '--name',
  dimension: '--dimension',
  prefix: '--prefix',
  timeout: '--timeout',
  for: '--for',
  unban: '--unban',
};

/** The flags of the options at the beginning of a message. Within a message, `by` is the field of a policy. */
const LEADING_FLAGS: typeof FLAGS = {
  ...FLAGS,
  until: '--until',
  reason: '--reason',
  by: '--by',
};

/** A message in the syntax of the command line: `raw: true` becomes --raw, and `{ burst: '1000/1m' }` becomes burst=1000/1m. */
export function inFlags(message: string): string {
  const named = message.replace(/^(\w+):/, (whole, option: string) =>
    LEADING_FLAGS[option] ? `${LEADING_FLAGS[option]}:` : whole,
  );
  const typed = named
    .replace(': a Date, ms since 1970, or an ISO 8601 text', ', such as 2030-01-31T12:00Z')
    .replace(
      "Pass a policy ('1000/1m' or 'unlimited'), some of its fields ({ limit: 1000 }), or { tier: 'pro' }.",
      'Pass a policy (1000/1m or unlimited), by name if the limiter has several (minute=1000/1m), or --tier.',
    )
    .replace('Pass { tier } alone.', 'Pass --tier alone.')
    .replace(/Pass whole milliseconds from \d+ to (\d+), or a number with a unit:/, (_, most: string) => {
      return `Pass a number with a unit, up to ${shortText(Number(most))}:`;
    })
    .replace(/by its name: \{ (.+) \}\.$/, (_, changes: string) => {
      const words = changes.split(', ').map((change) => change.replace(/^"?(.+?)"?: '(.*)'$/, '$1=$2'));
      return `by its name: ${words.join(' ')}.`;
    });
  return typed.replace(/`(\w+)(?:: ([^`]+))?`/g, (whole, option: string, value?: string) => {
    const flag = FLAGS[option];
    if (flag === undefined) return whole;
    return value === undefined || value === 'true' ? flag : `${flag} ${value}`;
  });
}

function exitCodeOf({ code }: HeadgateError): number {
  if (code.startsWith('HEADGATE_INVALID_') || code.startsWith('HEADGATE_UNKNOWN_')) return EXIT.usage;
  if (code === 'HEADGATE_STORE_AWAY' || code === 'HEADGATE_STORE_TIMEOUT') return EXIT.unreachable;
  return EXIT.failed;
}
