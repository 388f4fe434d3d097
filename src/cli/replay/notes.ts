import { count, many, printable } from '../format.js';
import { share } from './format.js';
import type { LogSummary } from './log-file.js';
import { REORDER } from './reorder.js';

/** What was found in the logs, whatever the policies are. */
export interface Found {
  readonly requests: number;
  readonly clients: number;
  readonly busiest: { readonly key: string; readonly value: number };
  readonly first: number;
  readonly last: number;
}

/** The note on a policy that is not replayed. */
export const leftNote = (policy: string): string =>
  `${printable(policy)} is not replayed: an access log does not tell how long each request took`;

/** A log with fewer requests is hardly more than a test. */
const FEW = 1000;

/** What a reader of the results should know about the logs, one line each. */
export function logNotes(logs: readonly LogSummary[], { requests, busiest, first, last }: Found): string[] {
  const notes: string[] = [];
  for (const { name, lines, requests, skipped, malformed, samples, late, warning } of logs) {
    const parts = [many(lines, 'line'), many(requests, 'request')];
    if (skipped > 0) parts.push(`${count(skipped)} skipped (no request, no key, or not matched)`);
    parts.push(
      malformed > 0 ? `${count(malformed)} malformed (${share(malformed, lines)})` : 'none malformed',
    );
    notes.push(`${printable(name)}: ${parts.join(', ')}`);
    for (const { line, problem, text } of samples) {
      notes.push(`  line ${count(line)}: ${printable(problem, 160)}: ${printable(text, 70)}`);
    }
    if (late > 0) {
      notes.push(
        `  ${many(late, 'line')} came more than ${count(REORDER)} lines late; taken at the time of the line before`,
      );
    }
    if (warning !== undefined) notes.push(`  ${warning}`);
  }
  if (last > first && first % 1000 === 0 && last % 1000 === 0) {
    notes.push(
      'The log has whole seconds: windows of a few seconds look fuller than they were, as all requests of a second come at once.',
    );
  }
  if (requests >= FEW && busiest.value > requests / 2) {
    notes.push(
      `${printable(busiest.key)} sent ${share(busiest.value, requests)} of the requests. If that is your proxy, let it log its ` +
        "clients' addresses, or limit by another --key.",
    );
  }
  return notes;
}
