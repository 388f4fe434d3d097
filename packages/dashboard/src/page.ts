import { createHash } from 'node:crypto';
import { pageFiles } from './page-files.js';

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const SCRIPTS = [
  // The licences of preact and htm ask for a notice.
  `/*! preact, (c) Jason Miller, MIT; htm, (c) Google, Apache-2.0 */\n${pageFiles.libraries}`,
  `'use strict';(() => {\n${pageFiles.script}\n})();`,
];

/** Only the page's scripts run, the page talks to its own server only, and no other page can show it in a frame. */
export const POLICY = [
  "default-src 'none'",
  `script-src ${SCRIPTS.map(hashOf).join(' ')}`,
  `style-src ${hashOf(pageFiles.style)}`,
  "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "require-trusted-types-for 'script'; trusted-types 'none'",
].join('; ');

const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0f766e"/>' +
  '<path d="M8 25V9m16 16V9M8 11h16" stroke="#fff" stroke-width="3" stroke-linecap="round"/>' +
  '<path d="M13 16v9m6-9v5" stroke="#99f6e4" stroke-width="3" stroke-linecap="round"/></svg>';

/** The whole page. It needs no other file. */
export const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>Headgate</title>
<link rel="icon" href="data:image/svg+xml,${encodeURIComponent(ICON)}">
<style>${pageFiles.style}</style>
</head>
<body>
<noscript>The dashboard needs JavaScript. The same facts are printed by: npx headgate-cli list</noscript>
<div id="app"></div>
${SCRIPTS.map((script) => `<script>${script}</script>`).join('\n')}
</body>
</html>
`;
