// Requests a minute and tokens a minute in one decision, for a handler that answers a Request with a Response: Next.js, SvelteKit, Remix,
// Hono, Bun, Deno. It reserves, streams, and settles the tokens used. See docs/token-budgets.md.
//
//   npx tsx examples/tokens-and-requests-web.ts
import { setTimeout as sleep } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import { createLimiter, type Decision } from 'headgate';
import { denial } from 'headgate/http';

const limiter = createLimiter({
  name: 'completions',
  // In a real application: store: redisStore(client), so that all processes share the quotas.
  policies: [
    { name: 'requests', algorithm: 'token-bucket', limit: 5, window: '1m' },
    { name: 'tokens', algorithm: 'token-bucket', limit: 10_000, window: '1m', unit: 'tokens' },
  ],
});

// In a real application: the user from your authentication.
const users = new Map(['ada', 'bob', 'eve'].map((name) => [`token-of-${name}`, `user:${name}`]));

/** In a real application: the provider's stream. It ends when it is cancelled, and never exceeds `maxTokens`. */
async function* complete(prompt: string, maxTokens: number) {
  for (const word of `You said: ${prompt}`.split(' ').slice(0, maxTokens)) {
    await sleep(1);
    yield { text: `${word} `, tokens: 1 };
  }
}

/** Streams an answer. At its end, or when the client disconnects, it settles the tokens used. */
function answer(prompt: string, maxTokens: number, promptTokens: number, reserved: Decision) {
  const pieces = complete(prompt, maxTokens);
  let used = promptTokens;
  const settle = () => reserved.settle({ tokens: used });
  return new ReadableStream<string>({
    async pull(controller) {
      try {
        const { done, value } = await pieces.next();
        const data = done ? { used } : { text: value.text };
        controller.enqueue(`data: ${JSON.stringify(data)}\n\n`);
        if (!done) return void (used += value.tokens);
      } catch (error) {
        await settle();
        throw error;
      }
      controller.close();
      await settle();
    },
    async cancel() {
      await pieces.return(undefined);
      await settle();
    },
  });
}

/** The handler. In Next.js: `export async function POST(request)`. */
async function POST(request: Request): Promise<Response> {
  // Visitors without a login share one quota, because a `Request` does not contain the client's address.
  const user = users.get(request.headers.get('authorization') ?? '') ?? 'visitors';
  const body = Object(await request.json().catch(() => ({}))) as { prompt?: unknown; maxTokens?: unknown };
  // The reservation must cover the largest cost of the call, so a client may not choose more.
  const prompt = String(body.prompt).slice(0, 1000);
  const maxTokens = Number.isInteger(body.maxTokens)
    ? Math.min(Math.max(Number(body.maxTokens), 1), 1000)
    : 500;
  // The provider's tokenizer counts exactly. A token has at least one byte.
  const promptTokens = Buffer.byteLength(prompt);
  const reserved = await limiter.consume(user, { cost: { tokens: promptTokens + maxTokens } });
  if (!reserved.allowed) {
    const { status, headers, body: problem } = denial(reserved);
    return new Response(problem, { status, headers });
  }
  const stream = answer(prompt, maxTokens, promptTokens, reserved).pipeThrough(new TextEncoderStream());
  return new Response(stream, { headers: { 'Content-Type': 'text/event-stream' } });
}

const port = Number(process.env.PORT ?? 3000);
serve({ fetch: POST, port }, () => console.log(`http://localhost:${port}`));
