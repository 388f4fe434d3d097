/** The most entries of a page; of the first one, which may all be imports of a thousand keys; and times as many in the next one, at most. */
const MOST = 500;
const FIRST = 8;
const GROWTH = 8;

/** The characters of a page, which neither the server nor this process needs long for. */
const LENGTH = 300_000;

/** The pages in which a log is read. Entries of a few keys are short, and those of imports are long. */
export class LogPages {
  /** The number of entries of the next page. */
  size = FIRST;

  /** Takes a page, whose entries are likely as long as those of the next one. @returns whether the page is the last one */
  isLast(entries: readonly string[]): boolean {
    const length = entries.reduce((sum, entry) => sum + entry.length, 0);
    const isLast = entries.length < this.size;
    const fitting = Math.floor((LENGTH / Math.max(1, length)) * entries.length);
    this.size = Math.max(1, Math.min(MOST, GROWTH * this.size, fitting));
    return isLast;
  }
}
