// GraphQL Yoga, as any other listener of node:http.
import { createServer } from 'node:http';
import { createSchema, createYoga } from 'graphql-yoga';
import { rateLimit } from 'headgate/express';

const limit = rateLimit('100/1m');
const yoga = createYoga({
  schema: createSchema({
    typeDefs: 'type Query { hello: String }',
    resolvers: { Query: { hello: () => 'hello' } },
  }),
});
export const server = createServer((req, res) => limit(req, res, () => yoga(req, res)));
