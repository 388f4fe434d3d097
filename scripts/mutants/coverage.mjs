// Which places of src/ some processes have executed: where NODE_V8_COVERAGE names a folder, each writes a report to it.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decode } from '@jridgewell/sourcemap-codec';
import { root } from '../lib/run.mjs';

/**
 * @typedef {{ startOffset: number, endOffset: number, count: number }} Range
 * @typedef {{ url: string, functions: { ranges: Range[] }[] }} Script
 * @typedef {{ lineLengths: number[], data: { mappings: string } }} SourceMap
 * @typedef {{ result: Script[], 'source-map-cache'?: Record<string, SourceMap> }} Report
 */

/** A place as one number, in the order of the text: a line from 1, and a column from 1. */
export const placeOf = (/** @type {{ line: number, column: number }} */ { line, column }) =>
  line * 10_000 + column;

/**
 * @param {string} folder with the reports
 * @returns {Record<string, number[]>} for each source file the places where what was executed begins and ends in turn
 */
export function executedIn(folder) {
  /** @type {Map<string, Map<number, boolean>>} */
  const files = new Map();
  for (const name of readdirSync(folder)) {
    const report = /** @type {Report} */ (JSON.parse(readFileSync(join(folder, name), 'utf8')));
    for (const { url, functions } of report.result) {
      const map = report['source-map-cache']?.[url];
      const [path] = url.split('?');
      if (!path?.startsWith(`file://${root}src/`) || !map?.data) continue;
      const file = path.slice(`file://${root}`.length);
      const places = files.get(file) ?? /** @type {Map<number, boolean>} */ (new Map());
      const executed = executedOffsets(functions.flatMap(({ ranges }) => ranges));
      for (const { offset, place } of segmentsOf(map))
        places.set(place, places.get(place) || executed[offset] === 1);
      files.set(file, places);
    }
  }
  return Object.fromEntries([...files].map(([file, places]) => [file, edgesOf(places)]));
}

/**
 * Whether a place was executed: it is so if the last place that is known before it was.
 * @param {readonly number[]} edges
 * @param {number} place
 */
export const isExecuted = (edges, place) => edges.filter((edge) => edge <= place).length % 2 === 1;

/** @param {Map<number, boolean>} places */
function edgesOf(places) {
  const edges = [];
  let before = false;
  for (const [place, executed] of [...places].sort(([a], [b]) => a - b)) {
    if (executed !== before) edges.push(place);
    before = executed;
  }
  return edges;
}

/**
 * A byte for each offset of the text. The innermost range that holds an offset decides.
 * @param {Range[]} ranges
 */
function executedOffsets(ranges) {
  const length = Math.max(0, ...ranges.map(({ endOffset }) => endOffset));
  const executed = new Uint8Array(length);
  const inwards = ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
  for (const { startOffset, endOffset, count } of inwards)
    executed.fill(count > 0 ? 1 : 0, startOffset, endOffset);
  return executed;
}

/**
 * Where the parts of the text that ran are in the source.
 * @param {SourceMap} map
 */
function* segmentsOf({ lineLengths, data }) {
  let start = 0;
  for (const [i, segments] of decode(data.mappings).entries()) {
    for (const [offset, source, line = 0, column = 0] of segments)
      if (source === 0)
        yield { offset: start + offset, place: placeOf({ line: line + 1, column: column + 1 }) };
    start += (lineLengths[i] ?? 0) + 1;
  }
}
