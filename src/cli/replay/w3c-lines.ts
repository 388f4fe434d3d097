import { fieldsOf, normal, present, type LoggedRequest } from './logged-request.js';
import { parseTime } from './time.js';

const DIRECTIVE = '#Fields:';

/** The position of each field in a line. */
type Columns = ReadonlyMap<string, number>;

const columnsOf = (names: string): Columns =>
  new Map(
    names
      .trim()
      .split(/\s+/)
      .map((name, i) => [name, i]),
  );

/** CloudFront's columns, for a part of a log without `#Fields`. */
const CLOUDFRONT = columnsOf(
  'date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status',
);
const CLOUDFRONT_LINE = /^\d{4}-\d\d-\d\d\t\d\d:\d\d:\d\d\t/;

/**
 * Makes a reader of W3C logs, as CloudFront (with tabs) and IIS write them. It returns a request; `'skipped'` for lines about the log
 * itself, which name the fields of the next lines; or `undefined` for a line of another format.
 */
export function w3cReader(): (line: string) => LoggedRequest | 'skipped' | undefined {
  let columns: Columns | undefined;
  return (line) => {
    if (line.startsWith('#')) {
      if (line.startsWith(DIRECTIVE)) columns = columnsOf(line.slice(DIRECTIVE.length));
      return /^#[A-Z][\w-]*:/.test(line) ? 'skipped' : undefined;
    }
    const isCloudFront = CLOUDFRONT_LINE.test(line);
    if (!columns && !isCloudFront) return undefined;
    const values = line.split(line.includes('\t') ? '\t' : ' ');
    if (columns?.size === values.length) return w3cRequest(columns, values);
    return isCloudFront ? w3cRequest(CLOUDFRONT, values) : undefined;
  };
}

const W3C_FIELDS = {
  address: 'c-ip',
  user: 'cs-username',
  method: 'cs-method',
  status: 'sc-status',
} as const;

function w3cRequest(columns: Columns, values: readonly string[]): LoggedRequest {
  const field = (name: string): string | undefined => {
    const column = columns.get(name);
    return column === undefined ? undefined : present(values[column]);
  };
  return {
    named: true,
    field,
    // The date and the time have their own columns, in UTC.
    timeOf: (names = 'date time') => parseTime(fieldsOf(field, names)),
    part: (name) =>
      normal(name, name === 'path' ? (field('cs-uri-stem') ?? field('cs-uri')) : field(W3C_FIELDS[name])),
  };
}
