// serverless-http on AWS Lambda, where `req.ip` is the address that the gateway reports.
import express from 'express';
import { rateLimit } from 'headgate/express';
import serverless from 'serverless-http';

const app = express();
app.use(rateLimit('100/1m'));
app.get('/', (req, res) => res.send('hello'));
export const handler = serverless(app);
