// socket.io: connections by address and events by user. A denial is `connect_error` with data, or the answer of an acknowledgement.
//
//   npx tsx examples/socket-io.ts
import { createServer } from 'node:http';
import { createLimiter } from 'headgate';
import { clientKey } from 'headgate/http';
import { Server } from 'socket.io';

const connections = createLimiter({ name: 'connections', limit: 3, window: '1m' });
const events = createLimiter({ name: 'events', algorithm: 'token-bucket', limit: 5, window: '10s' });

/** The events whose cost is not 1. */
const costs: Record<string, number> = { upload: 3 };

const server = createServer();
const io = new Server(server);

io.use((socket, next) => {
  void (async () => {
    const { allowed, retryAfterMs } = await connections.consume(clientKey(socket.handshake.address));
    next(allowed ? undefined : Object.assign(new Error('Too many connections'), { data: { retryAfterMs } }));
  })();
});

io.on('connection', (socket) => {
  // In a real application: the user of the token in the handshake. A key per socket would give more quota to users with more sockets.
  const { user } = socket.handshake.auth as { user?: unknown };
  const key = typeof user === 'string' ? user : clientKey(socket.handshake.address);

  socket.use(([event, ...args]: unknown[], next) => {
    void (async () => {
      const { allowed, reason, retryAfterMs } = await events.consume(key, {
        cost: costs[String(event)] ?? 1,
      });
      if (allowed) return next();
      const answer = args.at(-1) as ((reply: object) => void) | undefined;
      if (typeof answer === 'function') answer({ error: 'Too many events', reason, retryAfterMs });
      else socket.emit('denied', { event, reason, retryAfterMs });
    })();
  });

  socket.on('say', (text: string, answer?: (reply: object) => void) => answer?.({ said: text }));
  socket.on('upload', (_data: unknown, answer?: (reply: object) => void) => answer?.({ stored: true }));
});

const port = Number(process.env.PORT ?? 3000);
server.listen(port, () => console.log(`http://localhost:${port}`));
