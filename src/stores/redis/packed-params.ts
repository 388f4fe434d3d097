// The params of all policies of a call are one argument, because an argument costs the server as much as the arithmetic of a decision. The
// algorithms' `luaParams` are the layout, from which follow both the argument and the Lua that reads it.
import { kernels as layouts, SHARES_KERNEL, type AnyKernel } from '../../algorithms/index.js';
import { luaFiles } from './lua-files.js';

/** The params of a policy as they are sent. */
export function packParams(kernel: AnyKernel, numbers: readonly number[]): string {
  return layoutOf(kernel)
    .map(([, bytes], i) => pack(numbers[i]!, bytes))
    .join('');
}

/** The character of 0, so that all characters are printable ASCII: clients send text, and tools show it. */
const ZERO = 48;

/** The character of 0 of a param in one character. */
const SMALL_ZERO = 24;

/**
 * A number as the upper parts of its bytes, then their lower six bits, one character each. The first byte may be larger than others, so that
 * six are enough for 2^52, and Lua reads the parts exactly.
 */
function pack(number: number, bytes: number): string {
  if (bytes === 1) return String.fromCharCode(SMALL_ZERO + number);
  let upper = '';
  let lower = '';
  for (let i = bytes - 1; i >= 0; i--) {
    const all = Math.floor(number / 256 ** i);
    const byte = i === bytes - 1 ? all : all % 256;
    upper += String.fromCharCode(ZERO + Math.floor(byte / 64));
    lower += String.fromCharCode(ZERO + (byte % 64));
  }
  return upper + lower;
}

/** The sum by which the characters of 0 make a number in Lua too large. */
const addedTo = (bytes: number): number =>
  Array.from({ length: bytes }, (_, i) => 65 * ZERO * 256 ** i).reduce((sum, part) => sum + part, 0);

/** The names and the bytes of an algorithm's params. A param of one byte is at most 101. */
const layoutOf = (kernel: AnyKernel): [name: string, bytes: number][] =>
  Object.entries(layouts[kernel].luaParams);

const lengthOf = (layout: readonly [string, number][]): number =>
  layout.reduce((sum, [, bytes]) => sum + (bytes === 1 ? 1 : 2 * bytes), 0);

/**
 * The place from which Lua reads the params of an algorithm: ARGV[2] of `evaluate-single.lua`; that of `evaluate.lua`, whose params are read
 * once, into variables with the number of their policy; or these variables; or the table `p`.
 */
export type ParamSource = 'single' | 'policy' | 'variables' | 'table';

/** The place of a directive in a script. */
export interface ParamScope {
  readonly kernels: readonly AnyKernel[];
  /** The policies of a script that charges them without a look. */
  readonly policies: readonly AnyKernel[];
  readonly algorithm: AnyKernel | undefined;
  readonly source: ParamSource;
  /** The number of the algorithm among the policies, from 0. */
  readonly policy: number;
}

/** The fewest keys for which an MGET takes less time than a GET of each. An MGET of two keys takes 1.1 times as long, and of four 0.84 times. */
const LEAST_MGET = 3;

type Generator = (scope: ParamScope, names: readonly string[]) => string;

/** The directives that become Lua about params and states of policies. */
const GENERATORS: Readonly<Record<string, Generator>> = {
  /** Declares the params with these names. */
  params: (scope, names) => {
    const variables = scope.source === 'policy' ? numbered(names, scope) : names;
    return `local ${readLua(scope, names, variables)}`;
  },
  /** Reads params that few decisions need. */
  late: (scope, names) => `local ${readLua(scope, names, names)}`,
  /** A function that reads all params of an algorithm. */
  reader: ({ algorithm }) =>
    `kernels['${algorithm!}'] = { read = function(text, at)\n${allLua(algorithm!, 'text', 'at')}return params, at + ${lengthOf(layoutOf(algorithm!))}\nend }\n`,
  /** The params of the only policy. */
  configured: ({ algorithm }) =>
    `local configured\ndo\n${allLua(algorithm!, 'ARGV[2]', 1)}configured = params\nend\n`,
  /** The count of policies. Of a shared one, the hidden policies follow. */
  count: ({ policies, kernels }) => `local count = ${policies.length + hidden(kernels).length}\n`,
  pool: (scope) => {
    const names = layoutOf(SHARES_KERNEL).map(([name]) => name);
    const variables = names.map((name) => `pool_${name}`);
    const at = placeOf({ ...scope, policy: scope.policies.length });
    return `local ${unpackLua(SHARES_KERNEL, names, { text: 'ARGV[2]', at, variables })}`;
  },
  /** The values of a request's keys, read at once if this costs less than a GET of each. */
  values: ({ policies }) => {
    const keys = policies.flatMap((kernel, i) => (beginsWithGet(kernel) ? [`KEYS[key_at + ${i + 1}]`] : []));
    return keys.length >= LEAST_MGET ? `local found = redis.pcall('MGET', ${keys.join(', ')})\n` : '';
  },
  /** The value of one key. MGET finds no value of another type, which GET finds, too; and may not be permitted. */
  value: ({ policies, policy, source }) => {
    const get = `redis.pcall('GET', key)`;
    const before = policies.slice(0, policy).filter(beginsWithGet).length;
    const isFound = source === 'policy' && policies.filter(beginsWithGet).length >= LEAST_MGET;
    return `before = ${isFound ? `found[${before + 1}] or ` : ''}${get}\n`;
  },
};

export function paramsLua(directive: string, subject: string, scope: ParamScope): string {
  return GENERATORS[directive]!(scope, subject.split(', '));
}

const numbered = (names: readonly string[], { policy }: ParamScope): string[] =>
  names.map((name) => `${name}_${policy + 1}`);

const hidden = (kernels: readonly AnyKernel[]): AnyKernel[] =>
  kernels.includes(SHARES_KERNEL) ? [SHARES_KERNEL, SHARES_KERNEL] : [];

const beginsWithGet = (kernel: AnyKernel): boolean =>
  luaFiles[kernel]!['charge']?.includes('--- value\n') ?? false;

/** The position of a policy's params in ARGV[2] of `evaluate.lua`: behind the list of `policies.lua`, a digit and a name for each policy. */
function placeOf({ policies, policy, kernels }: ParamScope): number {
  const list = [...policies, ...hidden(kernels)].reduce((sum, kernel) => sum + 2 + kernel.length, 0);
  return policies.slice(0, policy).reduce((sum, kernel) => sum + lengthOf(layoutOf(kernel)), list + 2);
}

/** Lua that declares a table of all params. A policy has further fields. */
function allLua(kernel: AnyKernel, text: string, at: string | number): string {
  const names = layoutOf(kernel).map(([name]) => name);
  const fields = [...names, 'shadow = false', 'attempts = false'].join(', ');
  return `local ${unpackLua(kernel, names, { text, at })}local params = { ${fields} }\n`;
}

function readLua(scope: ParamScope, names: readonly string[], variables: readonly string[]): string {
  const { source } = scope;
  const kernel = scope.algorithm!;
  const all = layoutOf(kernel).map(([name]) => name);
  if (source === 'table')
    return `${variables.join(', ')} = ${names.map((name) => `p[${all.indexOf(name) + 1}]`).join(', ')}\n`;
  if (source === 'variables') return `${variables.join(', ')} = ${numbered(names, scope).join(', ')}\n`;
  const at = source === 'single' ? 1 : placeOf(scope);
  return unpackLua(kernel, names, { text: 'ARGV[2]', at, variables });
}

/** Lua that sets variables to consecutive params of an algorithm, whose params begin at a position of a text. */
function unpackLua(
  kernel: AnyKernel,
  names: readonly string[],
  { text, at, variables = names }: { text: string; at: string | number; variables?: readonly string[] },
): string {
  const layout = layoutOf(kernel);
  const from = layout.findIndex(([name]) => name === names[0]);
  const read = layout.slice(from, from + names.length);
  const before = lengthOf(layout.slice(0, from));
  const format = read.map(([, bytes]) => (bytes === 1 ? 'I1' : `I${bytes}I${bytes}`)).join('');
  const targets = read.flatMap(([, bytes], i) => [
    ...(bytes === 1 ? [] : [`${variables[i]!}_upper`]),
    variables[i]!,
  ]);
  const sums = read.map(([, bytes], i) => {
    const variable = variables[i]!;
    const sum = `${variable} = ${variable}_upper * 64 + ${variable} - ${addedTo(bytes)}\n`;
    return bytes === 1 ? `${variable} = ${variable} - ${SMALL_ZERO}\n` : sum;
  });
  const place = typeof at === 'number' ? at + before : at;
  return `${targets.join(', ')} = struct.unpack('>${format}', ${text}${place === 1 ? '' : `, ${place}`})\n${sums.join('')}`;
}
