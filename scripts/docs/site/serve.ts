// Serves the site as a host of static files does, for tests and pictures.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { SITE } from './sources.js';

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html',
  css: 'text/css',
  js: 'text/javascript',
  svg: 'image/svg+xml',
};

export interface SiteServer {
  readonly url: string;
  close(): Promise<void>;
}

/** @param onFile gets each file that is sent */
export async function serveSite(
  onFile: (file: string, bytes: Buffer, request: IncomingMessage) => void = () => {},
): Promise<SiteServer> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://site');
    const file = join(SITE, pathname.endsWith('/') ? `${pathname}index.html` : pathname);
    if (!existsSync(file) || !statSync(file).isFile()) return void response.writeHead(404).end();
    const bytes = readFileSync(file);
    onFile(file, bytes, request);
    response.writeHead(200, { 'content-type': TYPES[file.split('.').at(-1)!] ?? 'application/octet-stream' });
    response.end(bytes);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
