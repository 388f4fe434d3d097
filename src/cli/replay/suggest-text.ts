import { columns, count, many, printable } from '../format.js';
import type { Io } from '../io.js';
import type { Policy } from '../../contract/policy.js';
import { policyText } from '../../contract/compile-policies.js';
import { foundText, logNotes, share, type Found } from './format.js';
import type { LogSummary } from './log-file.js';
import type { Alternative, Suggestions } from './suggest.js';

/** The suggestions, for a terminal. */
export function suggestText(
  suggestions: Suggestions,
  found: Found,
  logs: readonly LogSummary[],
  command: string,
  io: Io,
): string {
  const { bold, dim } = io.colors;
  const { keep, together } = suggestions;
  const parts = [
    foundText(found, io.colors),
    `The smallest limits, each on its own, under which this share of the clients is never denied:`,
    alternativesTable(suggestions, found, io),
    `${bold(`All together, for ${keep} % of the clients`)}: ${deniedText(together, found)}`,
    bold(arrayOf(together.policies)),
    `To check it:\n  ${printable(command, Infinity)} ${together.policies.map((policy) => `--policy '${policyText(policy)}'`).join(' ')}`,
    logNotes(logs, found)
      .map((note) => dim(note))
      .join('\n'),
  ];
  return `${parts.join('\n\n')}\n`;
}

function alternativesTable({ each, keep }: Suggestions, found: Found, io: Io): string {
  const head = ['clients kept', 'policy', 'clients denied', '', 'requests denied', ''];
  const rows = each.flatMap(({ alternatives }) =>
    alternatives.map((alternative) => {
      const row = alternativeRow(alternative, found);
      return alternative.keep === keep ? row.map((text) => io.colors.green(text)) : row;
    }),
  );
  return columns(io, head, rows).trimEnd();
}

function alternativeRow(
  { keep, policy, deniedClients, deniedRequests }: Alternative,
  { clients, requests }: Found,
): string[] {
  return [
    `${keep} %`,
    policyText(policy),
    count(deniedClients),
    share(deniedClients, clients),
    deniedRequests === undefined ? '?' : count(deniedRequests),
    deniedRequests === undefined ? '' : share(deniedRequests, requests),
  ];
}

function deniedText({ deniedClients, deniedRequests }: Suggestions['together'], found: Found): string {
  if (deniedClients === 0) return 'nobody would be denied';
  const clients = `${many(deniedClients, 'client')} (${share(deniedClients, found.clients)})`;
  return deniedRequests === undefined
    ? `${clients} would be denied (the number of requests is unknown: standard input cannot be read twice, nor a file that changes meanwhile)`
    : `${clients} would be denied ${many(deniedRequests, 'request')} (${share(deniedRequests, found.requests)})`;
}

/** The policies as they are written in a program. */
function arrayOf(policies: readonly Policy[]): string {
  const lines = policies.map((policy) => {
    const fields = Object.entries(policy).map(([name, value]) => {
      const text = typeof value === 'number' ? literal(value) : `'${String(value)}'`;
      return `${name}: ${text}`;
    });
    return `  { ${fields.join(', ')} },`;
  });
  return `policies: [\n${lines.join('\n')}\n]`;
}

/** `10_000`. */
const literal = (value: number): string => count(value).replaceAll(',', '_');
