// Budgets of language-model tokens: per hour for an account and an organisation, per month for an organisation, in one decision. The cost of a
// call is known only afterwards: reserve the largest possible cost, stream the answer, settle the tokens used. See docs/token-budgets.md.
//
//   npx tsx examples/token-budget.ts
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { createLimiter } from 'headgate';
import { denial } from 'headgate/http';

const unit = 'tokens';
const budget = createLimiter({
  name: 'tokens',
  // In a real application: store: redisStore(client), so that all processes spend from the same budgets.
  policies: [
    { name: 'account', algorithm: 'calendar', limit: 10_000, period: 'hour', by: 'account', unit },
    { name: 'org', algorithm: 'calendar', limit: 20_000, period: 'hour', by: 'org', unit },
    { name: 'month', algorithm: 'calendar', limit: 500_000, period: 'month', by: 'org', unit },
  ],
});

// In a real application: the user from your authentication. Never trust a header without it.
const users = new Map([
  ['token-of-ada', { account: 'ada', org: 'acme' }],
  ['token-of-bob', { account: 'bob', org: 'acme' }],
]);

/** In a real application: the provider's stream. It ends when the signal is aborted, and never exceeds `maxTokens`. */
async function* complete(prompt: string, maxTokens: number, signal: AbortSignal) {
  for (const word of `You said: ${prompt}`.split(' ').slice(0, maxTokens)) {
    await sleep(1, undefined, { signal });
    yield { text: `${word} `, tokens: 1 };
  }
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 100_000;

const app = express();
app.use(express.json());

app.post('/complete', async (req, res) => {
  const user = users.get(req.get('authorization') ?? '');
  if (!user) return void res.sendStatus(401);
  const { prompt, maxTokens = 500 } = req.body as { prompt?: unknown; maxTokens?: unknown };
  // The reservation must cover the largest cost of the call, so a client may not choose less.
  if (typeof prompt !== 'string' || !isCount(maxTokens)) return void res.sendStatus(400);
  // The provider's tokenizer counts exactly. A token has at least one byte.
  const ofPrompt = Buffer.byteLength(prompt);
  const reserved = await budget.consume(user, { cost: ofPrompt + maxTokens });
  if (!reserved.allowed) {
    const { status, headers, body } = denial(reserved);
    return void res.status(status).set(headers).send(body);
  }
  // A client that disconnects stops the provider, and pays for the tokens used until then.
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  let used = ofPrompt;
  try {
    for await (const { text, tokens } of complete(prompt, maxTokens, gone.signal)) {
      used += tokens;
      res.write(`data: ${JSON.stringify({ text })}\n\n`);
    }
    res.end(`data: ${JSON.stringify({ used })}\n\n`);
  } catch {
    res.end();
  } finally {
    await reserved.settle(used);
  }
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
