// Requests a minute and tokens a minute in one decision, as the APIs of language models limit them. A request reserves its largest possible
// cost, streams its answer, and settles the tokens used. See docs/token-budgets.md. Without a framework: tokens-and-requests-web.ts.
//
//   npx tsx examples/tokens-and-requests.ts
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { rateLimit } from 'headgate/express';
import { clientKey } from 'headgate/http';

/** In a real application: the provider's stream. It ends when the signal is aborted, and never exceeds `maxTokens`. */
async function* complete(prompt: string, maxTokens: number, signal: AbortSignal) {
  for (const word of `You said: ${prompt}`.split(' ').slice(0, maxTokens)) {
    await sleep(1, undefined, { signal });
    yield { text: `${word} `, tokens: 1 };
  }
}

// In a real application: the user from your authentication.
const users = new Map(['ada', 'bob', 'eve'].map((name) => [`token-of-${name}`, `user:${name}`]));

interface Ask {
  prompt: string;
  maxTokens: number;
}

/** The prompt and the largest answer that a client requests. A client cannot request more than this limit. */
function askOf(body: unknown): Ask {
  const { prompt, maxTokens } = Object(body) as Partial<Record<keyof Ask, unknown>>;
  const maxAnswer = Number.isInteger(maxTokens) ? Math.min(Math.max(Number(maxTokens), 1), 1000) : 500;
  return { prompt: String(prompt).slice(0, 1000), maxTokens: maxAnswer };
}

/** The tokens of a prompt. A provider's tokenizer counts exactly. A token has at least one byte. */
const tokensOf = (prompt: string) => Buffer.byteLength(prompt);

const app = express();
app.use(express.json());

app.use(
  rateLimit({
    name: 'completions',
    // In a real application: store: redisStore(client), so that all processes share the quotas.
    policies: [
      { name: 'requests', algorithm: 'token-bucket', limit: 5, window: '1m' },
      { name: 'tokens', algorithm: 'token-bucket', limit: 10_000, window: '1m', unit: 'tokens' },
    ],
    // A visitor without a login is limited by address.
    keyGenerator: (req) => users.get(req.get('authorization') ?? '') ?? `ip:${clientKey(req.ip)}`,
    // A policy that the object does not name costs 1.
    cost: (req) => {
      const { prompt, maxTokens } = askOf(req.body);
      return { tokens: tokensOf(prompt) + maxTokens };
    },
  }),
);

app.post('/complete', async (req, res) => {
  const { prompt, maxTokens } = askOf(req.body);
  // A client that disconnects stops the provider, and pays for the tokens used until then.
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  let used = tokensOf(prompt);
  try {
    for await (const { text, tokens } of complete(prompt, maxTokens, gone.signal)) {
      used += tokens;
      res.write(`data: ${JSON.stringify({ text })}\n\n`);
    }
    res.end(`data: ${JSON.stringify({ used })}\n\n`);
  } catch {
    res.end();
  } finally {
    await req.rateLimit?.settle({ tokens: used });
  }
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
