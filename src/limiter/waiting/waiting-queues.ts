import { List, type Link } from '../../common/list.js';

/** The requests that wait for a key, in order. Only {@link WaitingQueues} adds and removes requests. */
export class WaitingQueue<T> extends List<T> {
  readonly key: string;
  /** The number of bounded requests that have a place. */
  size = 0;
  /** The line's place among the lines of the same size. */
  place: Link<this> | undefined;

  constructor(key: string) {
    super();
    this.key = key;
  }
}

/**
 * Lines by key that share a limited number of places. When all places are taken, a newcomer replaces the last request of the longest line,
 * if the newcomer's line remains shorter than the longest line. So a key with less than an equal part of the places always gets a place.
 * Every step takes constant time.
 */
export class WaitingQueues<T, L extends WaitingQueue<T>> {
  readonly #most: number;
  readonly #mostPerKey: number;
  readonly #make: (key: string) => L;
  readonly #giveWay: (line: L) => void;
  readonly #byKey = new Map<string, L>();
  /** For each size up to the longest line's: the lines of the size, with the most recent arrival at the end. */
  readonly #bySize: List<L>[] = [new List()];
  #size = 0;
  #unbounded = 0;

  /**
   * @param most the most requests that may wait in all lines
   * @param mostPerKey the most requests that may wait in one line
   * @param make makes the line of a key
   * @param giveWay must vacate the place of the last bounded request in a line. The line has a bounded request
   */
  constructor(most: number, mostPerKey: number, make: (key: string) => L, giveWay: (line: L) => void) {
    this.#most = most;
    this.#mostPerKey = mostPerKey;
    this.#make = make;
    this.#giveWay = giveWay;
  }

  /** The number of waiting requests in all lines, including unbounded requests. */
  get size(): number {
    return this.#size + this.#unbounded;
  }

  get(key: string): L | undefined {
    return this.#byKey.get(key);
  }

  [Symbol.iterator](): IterableIterator<L> {
    return this.#byKey.values();
  }

  /** Returns the line of a key, and creates a missing one. */
  open(key: string): L {
    let line = this.#byKey.get(key);
    if (!line) this.#byKey.set(key, (line = this.#make(key)));
    return line;
  }

  close({ key }: L): void {
    this.#byKey.delete(key);
  }

  /**
   * Takes a place for one more request of a line.
   *
   * @param isUnbounded whether the request always has a place, which does not count
   * @returns false if there is no place
   */
  take(line: L, isUnbounded = false): boolean {
    if (isUnbounded) {
      this.#unbounded++;
      return true;
    }
    if (line.size >= this.#mostPerKey) return false;
    if (this.#size >= this.#most) {
      const longest = this.#bySize.length - 1;
      if (line.size + 1 >= longest) return false;
      this.#giveWay(this.#bySize[longest]!.last!.value);
    }
    this.#resize(line, 1);
    return true;
  }

  vacate(line: L, isUnbounded = false): void {
    if (isUnbounded) this.#unbounded--;
    else this.#resize(line, -1);
  }

  #resize(line: L, by: 1 | -1): void {
    if (line.place) this.#bySize[line.size]!.remove(line.place);
    line.size += by;
    this.#size += by;
    const same = (this.#bySize[line.size] ??= new List());
    line.place = line.size > 0 ? same.insert(line, same.last) : undefined;
    // A line's size changes by one, so the size of the longest line also changes by at most one.
    if (!this.#bySize.at(-1)!.first) this.#bySize.pop();
  }
}
