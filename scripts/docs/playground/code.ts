// The program with the policies of the playground, to copy.
import { parsePolicy } from 'headgate';
import { linesOf, type Settings } from './settings.js';
import { banOf, shareOf } from './simulate.js';

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

const isWord = (name: string): boolean => /^[A-Za-z_]\w*$/.test(name);
const propertyOf = (name: string): string => (isWord(name) ? name : quoted(name));
const accessTo = (name: string): string => (isWord(name) ? name : `[${quoted(name)}]`);

/** A program of Express. */
export function codeOf(settings: Settings): string {
  const texts = linesOf(settings);
  const policies = texts.map((text) => parsePolicy(text));
  const dimensions = [
    ...new Set(policies.flatMap((policy) => [policy.by ?? [], shareOf(policy) ?? []].flat())),
  ];
  const ban = banOf(settings.ban);
  const isShared = policies.some((policy) => shareOf(policy) !== undefined && policy.by === undefined);
  const options = [
    `policies: [${texts.map(quoted).join(', ')}],`,
    isShared && `keyGenerator: () => 'everyone',`,
    dimensions.length > 0 && 'keys: {',
    ...dimensions.map((name) => `  ${propertyOf(name)}: (req) => req.user?.${accessTo(name)},`),
    dimensions.length > 0 && '},',
    ban &&
      `ban: { after: ${ban.after}, within: ${quoted(String(ban.within))}, for: ${quoted(String(ban.for))} },`,
    settings.wait.trim() !== '' && `wait: ${quoted(settings.wait.trim())},`,
  ].filter((line) => typeof line === 'string');
  return [
    `import express from 'express';`,
    `import { rateLimit } from 'headgate/express';`,
    ``,
    `const app = express();`,
    `app.use(`,
    `  rateLimit({`,
    ...options.map((line) => `    ${line}`),
    `  }),`,
    `);`,
  ].join('\n');
}
