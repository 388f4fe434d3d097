import { List, type Link } from '../../common/list.js';

/** The requests that wait for one key, in their order. Only {@link Lines} adds and removes. */
export class Line<T> extends List<T> {
  readonly key: string;
  /** How many wait. */
  size = 0;
  /** Its place among the lines of its size. */
  place: Link<this> | undefined;

  constructor(key: string) {
    super();
    this.key = key;
  }
}

/**
 * Lines by key that share room. Each key may take its share. When there is no room left, the last one of the longest line gives way to
 * a newcomer whose line would still be shorter. So nobody is turned away as long as its key has less than an equal part of the room.
 * Every step takes the same time, however many wait.
 */
export class Lines<T, L extends Line<T>> {
  readonly #most: number;
  readonly #mostPerKey: number;
  readonly #make: (key: string) => L;
  readonly #byKey = new Map<string, L>();
  /** For each size up to the longest line's, the lines of that size. The line that reached the size last stands at the end. */
  readonly #bySize: List<L>[] = [new List()];
  #size = 0;

  /**
   * @param most how many may wait in all lines
   * @param mostPerKey how many may wait in one
   * @param make makes a line for a key that has none
   */
  constructor(most: number, mostPerKey: number, make: (key: string) => L) {
    this.#most = most;
    this.#mostPerKey = mostPerKey;
    this.#make = make;
  }

  /** How many wait. */
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
   * @param giveWay is called with a line, and takes the last one out of it
   * @returns undefined if there is no room
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

  /** Adds a request to an open line, behind a link of it; undefined: in front of all. */
  add(line: L, value: T, before: Link<T> | undefined): Link<T> {
    if (line.size === 0) this.#byKey.set(line.key, line);
    const link = line.insert(value, before);
    this.#resize(line, 1);
    return link;
  }

  /** Takes a request out. A line is closed when it is empty. */
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
    // A line's size changes by one, and so does the size of the longest line.
    if (!this.#bySize.at(-1)!.first) this.#bySize.pop();
  }
}
