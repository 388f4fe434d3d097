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

/** The file of each. A property costs the garbage collector nothing, which the keys of a WeakMap do. */
const FILE = Symbol('file');
type Collection = (Map<unknown, unknown> | Set<unknown>) & { [FILE]?: string };

const sitesOnly = (_: Error, sites: NodeJS.CallSite[]) => sites;

function follow(collection: Collection): void {
  const { stackTraceLimit, prepareStackTrace } = Error;
  // A trace as text would be looked up in the source maps, for each collection.
  Object.assign(Error, { stackTraceLimit: 8, prepareStackTrace: sitesOnly });
  const sites = new Error().stack as unknown as NodeJS.CallSite[];
  Object.assign(Error, { stackTraceLimit, prepareStackTrace });
  // The first frame that is not of this file.
  const caller = sites
    .map((site) => site.getFileName())
    .find((name) => name && !name.includes('/resources/collections.'));
  const file = caller && /\/src\/(.+?\.ts)/.exec(caller)?.[1];
  if (!file) return;
  made.push({ file, collection: new WeakRef(collection) });
  collection[FILE] = file;
  note(collection);
}

function note(collection: Collection): void {
  const { [FILE]: file, size } = collection;
  if (file !== undefined && size > (peaks.get(file) ?? 0)) count.call(peaks, file, size);
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
