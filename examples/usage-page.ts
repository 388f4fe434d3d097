// The page of usage.ts and usage-fastify.ts, without scripts.
import type { Usage } from 'headgate';

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** A page for customers with a bar for each of their quotas. */
export function usagePage({ policies, bannedUntil }: Usage): string {
  const rows = policies.map(({ name, limit, used, remaining, unit, resetsAt }) => {
    const full = used === 0 ? '' : `, full again at ${new Date(resetsAt).toUTCString()}`;
    return `<h2>${escaped(name)}</h2>
<meter min="0" max="${used + remaining}" high="${0.8 * (used + remaining)}" value="${used}"></meter>
<p>${used} ${escaped(unit)} used, ${remaining} left (limit: ${limit})${full}</p>`;
  });
  const ban = bannedUntil === undefined ? '' : `<p>Blocked until ${new Date(bannedUntil).toUTCString()}</p>`;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Usage</title>
<h1>Usage</h1>
${ban}
${rows.join('\n')}
</html>`;
}
