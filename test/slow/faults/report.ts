/** The effect of one fault, for people: HEADGATE_REPORT=1 prints the table at the end. */
export interface Line {
  readonly fault: string;
  readonly decisions: number;
  readonly degraded: number;
  readonly doubled: number;
  readonly lost: number;
  readonly p99: number;
  readonly backAfter: number;
  readonly lateBy: number;
}

/** The lines of this process. */
export const lines: Line[] = [];

export function noteFault(line: Line): void {
  lines.push({
    ...line,
    p99: Math.round(line.p99),
    backAfter: Math.round(line.backAfter),
    lateBy: Math.round(line.lateBy),
  });
}

// The soak prints its own table.
if (typeof after === 'function')
  after(() => {
    if (process.env['HEADGATE_REPORT'] && lines.length > 0) console.table(lines);
  });
