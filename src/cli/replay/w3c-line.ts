import { pathOf, present, type LoggedRequest } from './request.js';
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

/** Reads W3C logs, as CloudFront (with tabs) and IIS write them. A line of the log tells which fields the next lines have. */
export class W3cReader {
  #columns: Columns | undefined;

  /** A request; `'skipped'` for lines about the log itself; undefined if the line has another format. */
  read(line: string): LoggedRequest | 'skipped' | undefined {
    if (line.startsWith('#')) {
      if (line.startsWith(DIRECTIVE)) this.#columns = columnsOf(line.slice(DIRECTIVE.length));
      return /^#[A-Z][\w-]*:/.test(line) ? 'skipped' : undefined;
    }
    const isCloudFront = CLOUDFRONT_LINE.test(line);
    if (!this.#columns && !isCloudFront) return undefined;
    const values = line.split(line.includes('\t') ? '\t' : ' ');
    if (this.#columns?.size === values.length) return new W3cLine(this.#columns, values);
    return isCloudFront ? new W3cLine(CLOUDFRONT, values) : undefined;
  }
}

class W3cLine implements LoggedRequest {
  readonly named = true;
  readonly #columns: Columns;
  readonly #values: readonly string[];

  constructor(columns: Columns, values: readonly string[]) {
    this.#columns = columns;
    this.#values = values;
  }

  /** The date and the time have their own columns, in UTC. */
  timeOf(field: string | undefined): number | undefined {
    return parseTime(
      field === undefined ? `${this.field('date') ?? ''} ${this.field('time') ?? ''}` : this.field(field),
    );
  }

  get address(): string | undefined {
    return this.field('c-ip');
  }

  get user(): string | undefined {
    return this.field('cs-username');
  }

  get method(): string | undefined {
    return this.field('cs-method');
  }

  get path(): string | undefined {
    const path = this.field('cs-uri-stem') ?? this.field('cs-uri');
    return path === undefined ? undefined : pathOf(path);
  }

  get status(): number | undefined {
    const status = this.field('sc-status');
    return status === undefined ? undefined : Number(status);
  }

  field(name: string): string | undefined {
    const column = this.#columns.get(name);
    return column === undefined ? undefined : present(this.#values[column]);
  }
}
