// Plain node:http, without a framework.
//
//   npx tsx examples/node-http.ts
import { createServer } from 'node:http';
import { createLimiter } from 'headgate';
import { clientKey, denial, rateLimitHeaders } from 'headgate/http';

const limiter = createLimiter({ limit: 5, window: '1m' });

const server = createServer((req, res) => {
  void (async () => {
    const decision = await limiter.consume(clientKey(req.socket.remoteAddress));
    if (!decision.allowed) {
      const { status, headers, body } = denial(decision);
      res.writeHead(status, headers).end(body);
      return;
    }
    res.writeHead(200, rateLimitHeaders(decision)).end('Hello\n');
  })();
});

const port = Number(process.env.PORT ?? 3000);
server.listen(port, () => console.log(`http://localhost:${port}`));
