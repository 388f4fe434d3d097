// Google Cloud Functions. The framework trusts every proxy, so `req.ip` would be the first address, which a client can choose.
import { http } from '@google-cloud/functions-framework';
import { rateLimit } from 'headgate/express';

const limit = rateLimit('100/1m');
http('hello', (req, res) => {
  req.app.set('trust proxy', 1); // The last address, which Google has appended.
  limit(req, res, () => res.send('hello'));
});
