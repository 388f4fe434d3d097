import { createRequire } from 'node:module';
import { join } from 'node:path';
import { failure } from '../errors.js';

/** The client packages that `redisStore` accepts, in the order in which they are tried. */
const PACKAGES = ['ioredis', 'iovalkey', 'redis'] as const;

export type PackageName = (typeof PACKAGES)[number];

export interface LoadedPackage {
  readonly name: PackageName;
  readonly module: unknown;
}

/**
 * Loads a client package from the current directory, or from beside this package (`npx -p headgate -p ioredis headgate`).
 *
 * @throws CliError `FAILED` if there is none
 */
export function loadPackage(cwd: string, names: readonly PackageName[] = PACKAGES): LoadedPackage {
  for (const from of [join(cwd, 'package.json'), import.meta.url]) {
    const require = createRequire(from);
    for (const name of names) {
      const path = resolved(require, name);
      if (path !== undefined) return { name, module: require(path) as unknown };
    }
  }
  throw failure(
    `None of the packages ${names.join(', ')} is installed here, and one is needed to talk to Redis. Run this where your ` +
      `service is installed, or: npx -p headgate -p ioredis headgate ...`,
  );
}

function resolved(require: NodeJS.Require, name: string): string | undefined {
  try {
    return require.resolve(name);
  } catch {
    return undefined;
  }
}
