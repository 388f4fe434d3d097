import stand = require('headgate/compat/express-rate-limit');

export = stand;
