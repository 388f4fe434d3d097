// Follows every Map and Set of src, by the file that creates the collection. Import this file before any file of src.

/** The largest number of entries that one collection of a file ever had. */
export const peaks = new Map<string, number>();

let tracked: { readonly file: string; readonly collection: WeakRef<{ readonly size: number }> }[] = [];

/** The number of entries in collections that are still in use, by file. Needs `--expose-gc`. */
export async function kept(): Promise<Record<string, number>> {
  // Weak references keep their targets until the turn ends.
  for (let i = 0; i < 3; i++) {
    await new Promise(setImmediate);
    globalThis.gc!();
  }
  tracked = tracked.filter(({ collection }) => collection.deref());
  const sizes: Record<string, number> = {};
  for (const { file, collection } of tracked) {
    const size = collection.deref()?.size ?? 0;
    if (size > 0) sizes[file] = (sizes[file] ?? 0) + size;
  }
  return sizes;
}

/** The file of a collection. A property costs the garbage collector nothing, unlike the keys of a WeakMap. */
const FILE = Symbol('file');
type Collection = (Map<unknown, unknown> | Set<unknown>) & { [FILE]?: string };

const sitesOnly = (_: Error, sites: NodeJS.CallSite[]) => sites;

function follow(collection: Collection): void {
  const { stackTraceLimit, prepareStackTrace } = Error;
  // Formatting the trace as text would look each line up in the source maps, for every collection.
  Object.assign(Error, { stackTraceLimit: 8, prepareStackTrace: sitesOnly });
  const sites = new Error().stack as unknown as NodeJS.CallSite[];
  Object.assign(Error, { stackTraceLimit, prepareStackTrace });
  // The first frame outside of this file.
  const caller = sites
    .map((site) => site.getFileName())
    .find((name) => name && !name.includes('/resources/collections.'));
  const file = caller && /\/src\/(.+?\.ts)/.exec(caller)?.[1];
  if (!file) return;
  tracked.push({ file, collection: new WeakRef(collection) });
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
