import { collect, integer, type CliCommand, type Options } from '../command.js';
import type { Io } from '../io.js';
import { loggedKeys } from './dimensions.js';
import { FORMATS, LineReader } from './line.js';
import type { Part } from './logged-request.js';
import { withLogs, type Logs } from './logs.js';
import { parseMatch } from './match.js';

/** The options of all commands that read logs. */
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

export const LOGS_HELP = `Logs may be in ${FORMATS}; plain or gzip; rotated files in any order. A line that cannot be read is counted and shown.`;

export function addLogOptions(command: CliCommand): CliCommand {
  return command
    .argument('<log...>', 'access logs; - is standard input')
    .option(
      '--key <parts>',
      "the limited key: ip (default), user, path, method, or a field of JSON lines; several together: 'ip path'; for policies with " +
        '`by`, repeatable with the name of a dimension: account=user',
      collect,
    )
    .option('--key-field <field>', 'JSON and W3C: the field of the client, as in req.headers.x-api-key')
    .option('--time-field <field>', "JSON and W3C: the field of the time, or two together: 'date time'")
    .option('--path-field <field>', 'JSON and W3C: the field of the path')
    .option('--status-field <field>', 'JSON and W3C: the field of the status')
    .option('--method-field <field>', 'JSON and W3C: the field of the method')
    .option(
      '--trusted-hops <n>',
      'in lists like X-Forwarded-For: the number of your own proxies (default: those with private addresses)',
      integer('--trusted-hops', 1, 99, 'pass the number of your own proxies: 1 to 99.'),
    )
    .option(
      '--match <filter>',
      "only some requests, by path, method and status: '/api POST', '5xx', '!/health'; repeatable",
      collect,
    )
    .subnetOption();
}

/** Opens the logs for as long as `use` reads them. `details` also reads paths and statuses. @throws CliError `USAGE`, `FAILED` */
export function readLogs(
  names: readonly string[],
  options: LogOptions,
  io: Io,
  use: (logs: Logs) => Promise<void>,
  details = false,
): Promise<void> {
  const line = {
    keys: loggedKeys(options.key),
    keyField: options.keyField,
    timeField: options.timeField,
    fields: fieldsOf(options),
    match: parseMatch(options.match ?? []),
    subnet: options.ipv6Subnet,
    trustedHops: options.trustedHops,
    details,
  };
  return withLogs(names, io, () => new LineReader(line), use);
}

function fieldsOf({ pathField, statusField, methodField }: LogOptions): Partial<Record<Part, string>> {
  return {
    ...(pathField !== undefined && { path: pathField }),
    ...(statusField !== undefined && { status: statusField }),
    ...(methodField !== undefined && { method: methodField }),
  };
}
