// Follows every Map and Set that the code in src makes, by the file that makes it. To be imported before anything of src.

/** How many entries one collection of a file had at most. */
export const peaks = new Map<string, number>();

let made: { readonly file: string; readonly collection: WeakRef<{ readonly size: number }> }[] = [];

/** How many entries the collections that are still in use have, by file. Needs `--expose-gc`. */
export async function kept(): Promise<Record<string, number>> {
  // What was let go in this turn is kept until its end.
  for (let i = 0; i < 3; i++) {
    await new Promise(setImmediate);
    globalThis.gc!();
  }
  made = made.filter(({ collection }) => collection.deref());
  const sizes: Record<string, number> = {};
  for (const { file, collection } of made) {
    const size = collection.deref()?.size ?? 0;
    if (size > 0) sizes[file] = (sizes[file] ?? 0) + size;
  }
  return sizes;
}

/** The file of each. */
const files = new WeakMap<object, string>();

function follow(collection: Map<unknown, unknown> | Set<unknown>): void {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 8;
  const stack = new Error().stack!;
  Error.stackTraceLimit = stackTraceLimit;
  // The first frame that is not of this file.
  const frame = stack
    .split('\n')
    .find((line, i) => i > 0 && !/\/resources\/collections\.|Reflect/.test(line));
  const file = frame && /\/src\/(.+?\.ts)/.exec(frame)?.[1];
  if (!file) return;
  made.push({ file, collection: new WeakRef(collection) });
  files.set(collection, file);
  note(collection);
}

function note(collection: Map<unknown, unknown> | Set<unknown>): void {
  const file = files.get(collection);
  if (file !== undefined && collection.size > (peaks.get(file) ?? 0))
    count.call(peaks, file, collection.size);
}

const { set: count } = Map.prototype;
Map.prototype.set = function (this: Map<unknown, unknown>, key: unknown, value: unknown) {
  count.call(this, key, value);
  note(this);
  return this;
};

const { add } = Set.prototype;
Set.prototype.add = function (this: Set<unknown>, value: unknown) {
  add.call(this, value);
  note(this);
  return this;
};

function following<T extends MapConstructor | SetConstructor>(Native: T): T {
  const following: T = new Proxy(Native, {
    construct(target, args, newTarget) {
      const collection = Reflect.construct(
        target,
        args,
        newTarget === following ? target : newTarget,
      ) as Set<unknown>;
      follow(collection);
      return collection;
    },
  });
  return following;
}

globalThis.Map = following(Map);
globalThis.Set = following(Set);
