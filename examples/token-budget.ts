// A budget of language-model tokens. What a call costs is known only afterwards: reserve an estimate, then settle.
//
//   npx tsx examples/token-budget.ts
import express from 'express';
import { createLimiter } from 'headgate';
import { denial } from 'headgate/http';

const budget = createLimiter({
  name: 'tokens',
  policies: [
    { name: 'minute', algorithm: 'token-bucket', limit: 1_000, window: '1m' },
    { name: 'day', algorithm: 'sliding-window', limit: 50_000, window: '1d', segments: 24 },
  ],
});

/** In a real application: the provider's API, which reports what was used. */
function complete(prompt: string, maxTokens: number) {
  const used = Math.min(maxTokens, 2 * prompt.length);
  return Promise.resolve({ text: `You said: ${prompt}`, used });
}

const app = express();
app.use(express.json());

app.post('/complete', async (req, res) => {
  const { prompt, maxTokens = 500 } = req.body as { prompt: string; maxTokens?: number };
  const decision = await budget.consume(req.get('x-user') ?? 'anonymous', {
    cost: Math.ceil(prompt.length / 4) + maxTokens,
  });
  if (!decision.allowed) {
    const { status, headers, body } = denial(decision);
    res.status(status).set(headers).send(body);
    return;
  }
  try {
    const { text, used } = await complete(prompt, maxTokens);
    await decision.settle(used);
    res.json({ text, used });
  } catch {
    await decision.refund();
    res.status(502).json({ error: 'The model did not answer' });
  }
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
