export interface Link<T> {
  readonly value: T;
  before: Link<T> | undefined;
  after: Link<T> | undefined;
}

/** A doubly linked list, because removing an element from an array would move all elements behind it. */
export class List<T> {
  #first: Link<T> | undefined;
  #last: Link<T> | undefined;

  get first(): Link<T> | undefined {
    return this.#first;
  }

  get last(): Link<T> | undefined {
    return this.#last;
  }

  /** Adds a value behind a link of this list, or at the front if `before` is undefined. */
  insert(value: T, before: Link<T> | undefined): Link<T> {
    const after = before ? before.after : this.#first;
    const link: Link<T> = { value, before, after };
    if (before) before.after = link;
    else this.#first = link;
    if (after) after.before = link;
    else this.#last = link;
    return link;
  }

  /** Takes out a link, which must be in this list. */
  remove({ before, after }: Link<T>): void {
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let link = this.#first; link; link = link.after) yield link.value;
  }
}
