// What the generators of both languages share: the mutants of one file, as they are found.

/**
 * One change of one file.
 *
 * @typedef {object} Mutant
 * @property {string} file its path from the root
 * @property {number} line where what is replaced begins, counted from 1
 * @property {number} column
 * @property {string} operator the kind of change
 * @property {number} start the offset of what is replaced
 * @property {number} end
 * @property {string} from what is replaced
 * @property {string} to what takes its place
 */

/**
 * @param {string} file
 * @param {string} text
 */
export function changesOf(file, text) {
  /** @type {Map<string, Mutant>} two operators may come to the same change */
  const found = new Map();
  return {
    /**
     * @param {string} operator
     * @param {number} start
     * @param {number} end
     * @param {string} to
     */
    change(operator, start, end, to) {
      const before = text.slice(0, start).split('\n');
      found.set(`${start} ${end} ${to}`, {
        file,
        line: before.length,
        column: (before.at(-1) ?? '').length + 1,
        operator,
        start,
        end,
        from: text.slice(start, end),
        to,
      });
    },
    mutants: () => [...found.values()].sort((a, b) => a.start - b.start || a.end - b.end),
  };
}

/**
 * @param {string} text of the mutant's file
 * @param {Mutant} mutant
 */
export const applied = (text, { start, end, to }) => text.slice(0, start) + to + text.slice(end);

/** @param {Mutant} mutant */
export function describeMutant({ file, line, column, operator, from, to }) {
  return `${file}:${line}:${column} ${operator}: ${short(from)} -> ${short(to) || '(nothing)'}`;
}

/** @param {string} text */
function short(text) {
  const one = text.replace(/\s+/g, ' ').trim();
  return one.length <= 70 ? one : `${one.slice(0, 50)} ... ${one.slice(-15)}`;
}
