// Measures classes, so that no class grows unnoticed.
import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { root } from './run.mjs';

export interface ClassSize {
  /** The class and its file. */
  name: string;
  lines: number;
  /** Methods, accessors and constructors with a body, and functions that are fields. */
  methods: number;
}

/** Measures each class of TypeScript files. */
export function measureClasses(files: readonly string[]): ClassSize[] {
  return files.filter((file) => file.endsWith('.ts')).flatMap(classesOf);
}

function classesOf(file: string): ClassSize[] {
  const text = readFileSync(`${root}${file}`, 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: ClassSize[] = [];
  const visit = (node: ts.Node) => {
    if (ts.isClassLike(node)) {
      const lineOf = (position: number) => source.getLineAndCharacterOfPosition(position).line;
      const lines = lineOf(node.end) - lineOf(node.getStart()) + 1;
      found.push({
        name: `${node.name?.text} (${file})`,
        lines,
        methods: node.members.filter(isMethod).length,
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const isMethod = (member: ts.ClassElement) =>
  ts.isPropertyDeclaration(member)
    ? member.initializer !== undefined && ts.isArrowFunction(member.initializer)
    : ts.isFunctionLike(member) && 'body' in member && member.body !== undefined;
