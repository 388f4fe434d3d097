// The samples of the docs: code blocks of all pages, and the programs in examples.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../../scripts/lib/run.mjs';

/** A program of the docs. */
export interface Sample {
  /** The page and the line, or the program's file. */
  readonly name: string;
  /** The page, or the program's file. */
  readonly page: string;
  readonly code: string;
}

/** Modules that receive requests of clients. */
const DOORS =
  /from '(headgate\/(express|fastify|hono|koa|web|nestjs|http|compat\/[\w-]+)|express|fastify|hono|koa|socket\.io|ws|node:http|@azure\/functions|@grpc\/grpc-js)'|require\('(express|headgate\/express)'\)/;

const read = (path: string): string => readFileSync(join(root, path), 'utf8');

function pages(): readonly string[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' });
  return [
    ...readdirSync(root).filter((file) => file.endsWith('.md')),
    ...docs.filter((file) => file.endsWith('.md') && !file.startsWith('api/')).map((file) => `docs/${file}`),
    ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}/README.md`),
  ].sort();
}

/** Every program of the docs that uses Headgate and receives requests of clients, and every such example. */
export function samples(): readonly Sample[] {
  const blocks = pages().flatMap((page) => {
    const text = read(page);
    return [...text.matchAll(/^```(?:ts|js)\n(.*?)^```$/gms)].map(({ 1: code = '', index }) => ({
      name: `${page}:${text.slice(0, index).split('\n').length}`,
      ...{ page, code },
    }));
  });
  const programs = ['examples', 'examples/compared', 'examples/frameworks']
    .flatMap((folder) => readdirSync(join(root, folder)).map((file) => `${folder}/${file}`))
    .filter((path) => /\.(ts|mjs)$/.test(path))
    .map((path) => ({ name: path, page: path, code: read(path) }));
  return [...blocks, ...programs].filter(({ code }) => DOORS.test(code) && /['/]headgate/.test(code));
}

/**
 * The header fields that a sample reads, each with whether the sample states who sets the field. A client cannot choose such a field.
 *
 * @returns whether a field is stated as set by a proxy or gateway, by the field's name in lower case
 */
export function fieldsOf({ code }: Sample): ReadonlyMap<string, boolean> {
  const lines = code.split('\n');
  const reads = /(?:\bget|header)\('([\w-]+)'\)|headers(?:\.(?!get\b)(\w+)|\['([\w-]+)'\])/g;
  const fields = new Map<string, boolean>();
  for (const [i, line] of lines.entries())
    for (const [, ...names] of line.matchAll(reads)) {
      const name = names.find(Boolean)!.toLowerCase();
      const near = [lines[i - 1] ?? '', line].map((each) => each.slice(each.indexOf('//') + 1));
      const isStated = near.some((each) => /^\/.*\b(sets|set by|overwrites)\b/i.test(each));
      fields.set(name, isStated || (fields.get(name) ?? false));
    }
  return fields;
}
