// Prints the answers to 22 registrations at the auth router of the MCP SDK, with the installed express-rate-limit.
import { mcpAuthRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import express from 'express';

const app = express();
app.set('trust proxy', 1);
const provider = { clientsStore: { getClient() {}, registerClient() {} } };
app.use(mcpAuthRouter({ provider, issuerUrl: new URL('http://localhost') }));
const server = app.listen(0, '127.0.0.1', async () => {
  const answers = [];
  for (let i = 0; i < 22; i++) {
    const response = await fetch(`http://127.0.0.1:${server.address().port}/register`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    });
    const headers = [...response.headers].filter(([name]) => name !== 'date' && name !== 'etag');
    answers.push({ status: response.status, headers, body: await response.text() });
  }
  console.log(JSON.stringify(answers));
  server.close();
});
