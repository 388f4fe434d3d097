// Plain node:http, without a framework.
//
//   npx tsx examples/node-http.ts
import { createServer, type IncomingMessage } from 'node:http';
import { createFlow, nodeResponse } from 'headgate/http';

const ip = (req: IncomingMessage) => req.socket.remoteAddress;
const flow = createFlow({ ...nodeResponse, ip }, { limit: 5, window: '1m' });

const server = createServer((req, res) => {
  flow.run(req, res, (error) => {
    if (error) res.writeHead(500);
    res.end(error ? 'Failed\n' : 'Hello\n');
  });
});

const port = Number(process.env.PORT ?? 3000);
server.listen(port, () => console.log(`http://localhost:${port}`));
