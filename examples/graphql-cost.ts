// GraphQL: the cost of a query depends on its fields. It is computed before any field is resolved.
//
//   npx tsx examples/graphql-cost.ts
import express from 'express';
import { buildSchema, graphql, Kind, parse, type FieldNode, type SelectionSetNode } from 'graphql';
import { createLimiter } from 'headgate';
import { clientKey, denial } from 'headgate/http';

const schema = buildSchema(`
  type Author { name: String! books(first: Int = 10): [Book!]! }
  type Book { title: String! author: Author! }
  type Query { books(first: Int = 10): [Book!]! }
`);

const books = [{ title: 'Notes', author: { name: 'Ada', books: [] } }];
const rootValue = { books: ({ first }: { first: number }) => books.slice(0, first) };

/** A field costs 1, and a list its length times the cost of an item. Resolve fragments first, or refuse them as this example does. */
function costOf({ selections }: SelectionSetNode): number {
  return selections.reduce((sum, node) => {
    if (node.kind !== Kind.FIELD) throw new Error('Fragments are not supported');
    return sum + 1 + lengthOf(node) * (node.selectionSet ? costOf(node.selectionSet) : 0);
  }, 0);
}

function lengthOf({ name, arguments: given }: FieldNode): number {
  if (name.value !== 'books') return 1;
  const first = given?.find((argument) => argument.name.value === 'first')?.value;
  return first?.kind === Kind.INT ? Number(first.value) : 10;
}

const limiter = createLimiter({ name: 'graphql', algorithm: 'token-bucket', limit: 100, window: '1m' });
const app = express();
app.use(express.json());

app.post('/graphql', async (req, res) => {
  const { query } = Object(req.body) as { query?: unknown };
  if (typeof query !== 'string') {
    res.status(400).json({ errors: [{ message: 'Send a query' }] });
    return;
  }
  let cost = 0;
  try {
    for (const node of parse(query).definitions)
      if ('selectionSet' in node) cost += costOf(node.selectionSet);
  } catch (error) {
    res.status(400).json({ errors: [{ message: (error as Error).message }] });
    return;
  }
  const decision = await limiter.consume(clientKey(req.ip), { cost });
  const extensions = { cost: { requested: cost, remaining: decision.remaining } };
  if (!decision.allowed) {
    const { status, headers } = denial(decision);
    const message = decision.reason === 'cost-exceeds-capacity' ? 'Ask for less' : 'Too many requests';
    res
      .status(status)
      .set({ ...headers, 'Content-Type': 'application/json' })
      .json({ errors: [{ message, extensions: { code: 'RATE_LIMITED' } }], extensions });
    return;
  }
  res.json({ ...(await graphql({ schema, source: query, rootValue })), extensions });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
