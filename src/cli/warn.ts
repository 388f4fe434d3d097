import { printableJson, printableLines } from '../common/printable.js';
import type { Io } from './io.js';

export interface Warning {
  readonly code: string;
  readonly message: string;
}

/** Writes a warning to standard error: a line for people, or an object for programs. */
export function warn(io: Io, warning: Warning | undefined): void {
  if (!warning) return;
  const { code, message } = warning;
  const text = io.json
    ? printableJson(JSON.stringify({ warning: true, code, message }))
    : printableLines(`headgate: warning: ${message}`);
  io.stderr.write(`${text}\n`);
}
