// What the reader of logs takes of Node and of the command line's output, for the browser. The page shows none of its notes.
// eslint-disable-next-line no-control-regex -- these are the characters
const CONTROLS = /\u001b\[[\d;]*[A-Za-z]/g;

export const stripVTControlCharacters = (text: string): string => text.replace(CONTROLS, '');

export const usageError = (message: string): Error => new Error(message);

export const count = (n: number): string => String(n);

export const share = (part: number, whole: number): string => `${Math.round((100 * part) / whole)} %`;
