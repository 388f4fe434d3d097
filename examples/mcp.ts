// A server of MCP tools: limits per client, per session and per tool, and a cost by tool. A denial is a result that the model reads.
//
//   npx tsx examples/mcp.ts
import { randomUUID } from 'node:crypto';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import express from 'express';
import { createLimiter } from 'headgate';
import { rateLimit } from 'headgate/express';
import { clientKey } from 'headgate/http';

const limiter = createLimiter({
  name: 'tools',
  policies: ['client=token-bucket 60/1m burst 30', 'session=10/1m by session', 'tool=3/1m by tool'],
});

/** The cost of a call for its client. In its session and for its tool, each call costs 1. */
const costs = { search: 1, report: 10 };

/** Runs a tool, or returns the time to call again. A denial is a result, because a protocol error would end the model's turn. */
async function limited(
  tool: keyof typeof costs,
  client: string,
  session: string | undefined,
  work: () => Promise<string>,
): Promise<CallToolResult> {
  const key = { key: client, session, tool: `${client} ${tool}` };
  const decision = await limiter.consume(key, { cost: { client: costs[tool] } });
  if (decision.allowed) return { content: [{ type: 'text', text: await work() }] };
  const { retryAfterMs, policy } = decision;
  const when =
    retryAfterMs === undefined ? 'Do not call again.' : `Call again in ${Math.ceil(retryAfterMs / 1000)} s.`;
  return {
    isError: true,
    content: [{ type: 'text', text: `Too many calls (${policy}). ${when}` }],
    _meta: { 'headgate/retryAfterMs': retryAfterMs },
  };
}

/** The tools for one client. In a real application the client is the `clientId` of the token (`req.auth`). */
function toolsFor(client: string): McpServer {
  const server = new McpServer({ name: 'example', version: '1.0.0' });
  server.registerTool('search', { description: 'Searches' }, ({ sessionId }) =>
    limited('search', client, sessionId, async () => 'found'),
  );
  server.registerTool('report', { description: 'Builds a report' }, ({ sessionId }) =>
    limited('report', client, sessionId, async () => 'built'),
  );
  return server;
}

const app = express();
const sessions = new Map<string, StreamableHTTPServerTransport>();

// A client that has used up a session can open another. Therefore requests are limited by address, before the body is read.
app.use('/mcp', rateLimit({ name: 'mcp', limit: 300, window: '1m' }), express.json());
app.all('/mcp', async (req, res) => {
  const id = req.get('Mcp-Session-Id');
  let transport = id === undefined ? undefined : sessions.get(id);
  if (id !== undefined && !transport) {
    res.status(404).json({ jsonrpc: '2.0', error: { code: -32001, message: 'Session not found' }, id: null });
    return;
  }
  if (!transport) {
    const opened = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => void sessions.set(session, opened),
      onsessionclosed: (session) => void sessions.delete(session),
    });
    transport = opened;
    await toolsFor(clientKey(req.ip)).connect(transport);
  }
  await transport.handleRequest(req, res, req.body);
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
