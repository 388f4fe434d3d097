// WebSocket messages: each user may send 5 a second over all connections. Users who ignore denials are disconnected.
//
//   npx tsx examples/websocket.ts
import { createLimiter } from 'headgate';
import { WebSocketServer } from 'ws';

const messages = createLimiter({
  name: 'messages',
  algorithm: 'token-bucket',
  limit: 5,
  window: '1s',
  ban: { after: 20, within: '10s', for: '1m' },
});

const port = Number(process.env.PORT ?? 3000);
const server = new WebSocketServer({ port }, () => console.log(`ws://localhost:${port}`));

server.on('connection', (socket, request) => {
  // In a real application: the user of the session in the upgrade request.
  const user = new URL(request.url ?? '/', 'ws://localhost').searchParams.get('user') ?? 'anonymous';

  socket.on('message', (data: Buffer) => {
    void (async () => {
      const { allowed, reason, retryAfterMs } = await messages.consume(user);
      if (allowed) socket.send(JSON.stringify({ echo: data.toString() }));
      else if (reason === 'banned') socket.close(1008, 'Too many messages');
      else socket.send(JSON.stringify({ denied: reason, retryAfterMs }));
    })();
  });
});
