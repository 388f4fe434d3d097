import { List, type Link } from '../../common/list.js';

/** The requests that wait for one key, in order. Only {@link Lines} adds and removes them. */
export class Line<T> extends List<T> {
  readonly key: string;
  /** How many requests wait. */
  size = 0;
  /** The line's place among the lines of the same size. */
  place: Link<this> | undefined;

  constructor(key: string) {
    super();
    this.key = key;
  }
}

/**
 * Lines by key that share a limited number of places. Each key may use its share. When all places are taken, a newcomer whose line would
 * still be the shorter one replaces the last request of the longest line. So a key that has less than an equal part of the places is always
 * let in. Every step takes constant time.
 */
export class Lines<T, L extends Line<T>> {
  readonly #most: number;
  readonly #mostPerKey: number;
  readonly #make: (key: string) => L;
  readonly #byKey = new Map<string, L>();
  /** For each size up to the longest line's: the lines of that size. The line that reached the size last is at the end. */
  readonly #bySize: List<L>[] = [new List()];
  #size = 0;

  /**
   * @param most how many requests may wait in all lines
   * @param mostPerKey how many requests may wait in one line
   * @param make makes the line of a key
   */
  constructor(most: number, mostPerKey: number, make: (key: string) => L) {
    this.#most = most;
    this.#mostPerKey = mostPerKey;
    this.#make = make;
  }

  /** How many requests wait in all lines. */
  get size(): number {
    return this.#size;
  }

  get(key: string): L | undefined {
    return this.#byKey.get(key);
  }

  [Symbol.iterator](): IterableIterator<L> {
    return this.#byKey.values();
  }

  /**
   * The line that one more request of a key may join.
   *
   * @param giveWay receives a line, and must remove the last request from it
   * @returns undefined if there is no place
   */
  open(key: string, giveWay: (line: L) => void): L | undefined {
    const line = this.#byKey.get(key);
    const size = line ? line.size : 0;
    if (size >= this.#mostPerKey) return undefined;
    if (this.#size >= this.#most) {
      const longest = this.#bySize.length - 1;
      if (size + 1 >= longest) return undefined;
      giveWay(this.#bySize[longest]!.last!.value);
    }
    return line ?? this.#make(key);
  }

  /** Adds a request to an open line, behind a link of it; undefined: at the front. */
  add(line: L, value: T, before: Link<T> | undefined): Link<T> {
    if (line.size === 0) this.#byKey.set(line.key, line);
    const link = line.insert(value, before);
    this.#resize(line, 1);
    return link;
  }

  /** Removes a request. An empty line is closed. */
  delete(line: L, link: Link<T>): void {
    line.remove(link);
    this.#resize(line, -1);
    if (line.size === 0) this.#byKey.delete(line.key);
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
