import { Option } from 'commander';
import { collect, integer, type CliCommand, type Options } from '../command.js';
import { quoted } from '../format.js';
import type { Io } from '../io.js';
import { loggedKeys } from './dimensions.js';
import { FORMATS } from './formats.js';
import { LineReader } from './line.js';
import { withLogs, type Logs } from './logs.js';
import { parseMatch } from './match.js';

export interface LogOptions extends Pick<Options, 'ipv6Subnet'> {
  readonly key?: readonly string[];
  readonly keyField?: string;
  readonly timeField?: string;
  readonly pathField?: string;
  readonly statusField?: string;
  readonly methodField?: string;
  readonly match?: readonly string[];
  readonly trustedHops?: number;
}

export const LOGS_HELP = `Logs may be in ${FORMATS}; plain or gzip; rotated files in any order. Unreadable lines are counted and shown.`;

const NAMED = 'JSON and W3C: the field of the';

const FLAGS: readonly (readonly [flags: string, help: string, parse?: (text: string) => unknown])[] = [
  [
    '--key <parts>',
    "the limited key: ip (default), user, path, method, or a field of JSON lines; several together: 'ip path'; for policies with " +
      '`by`, repeatable with the name of a dimension: account=user',
    collect,
  ],
  ['--key-field <field>', `${NAMED} client, as in req.headers.x-api-key`],
  ['--time-field <field>', `${NAMED} time, or two together: 'date time'`],
  ['--path-field <field>', `${NAMED} path`],
  ['--status-field <field>', `${NAMED} status`],
  ['--method-field <field>', `${NAMED} method`],
  [
    '--trusted-hops <n>',
    'in lists like X-Forwarded-For: the number of your own proxies (default: those with private addresses)',
    integer('--trusted-hops', 1, 99, 'pass the number of your own proxies: 1 to 99.'),
  ],
  [
    '--match <filter>',
    "only some requests, by path, method and status: '/api POST', '5xx', '!/health'; repeatable",
    collect,
  ],
];

export function addLogOptions(command: CliCommand): CliCommand {
  command.argument('<log...>', 'access logs, or - for standard input');
  for (const [flags, help, parse] of FLAGS) {
    const option = new Option(flags, help);
    command.addOption(parse ? option.argParser(parse) : option);
  }
  return command.subnetOption();
}

/** The words of a command line with the same options. */
export function wordsOf(options: LogOptions): string[] {
  const values = options as Readonly<Record<string, string | number | readonly string[] | undefined>>;
  return [...FLAGS.map(([flags]) => flags), '--ipv6-subnet <bits>'].flatMap((flags) => {
    const option = new Option(flags);
    const given = [values[option.attributeName()] ?? []].flat();
    return given.flatMap((value) => [option.long!, quoted(String(value))]);
  });
}

/** Opens the logs for as long as `use` reads them. With `details`, paths and statuses are read, too. @throws CliError `USAGE`, `FAILED` */
export function readLogs(
  names: readonly string[],
  options: LogOptions & { readonly details?: boolean },
  io: Io,
  use: (logs: Logs) => Promise<void>,
): Promise<void> {
  const { keyField, timeField, pathField, statusField, methodField, trustedHops, details = false } = options;
  const line = {
    keys: loggedKeys(options.key),
    keyField,
    fields: { time: timeField, path: pathField, status: statusField, method: methodField },
    match: parseMatch(options.match ?? []),
    subnet: options.ipv6Subnet,
    trustedHops,
    details,
  };
  return withLogs(names, io, () => new LineReader(line), use);
}
