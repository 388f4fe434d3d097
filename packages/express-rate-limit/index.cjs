module.exports = require('headgate/compat/express-rate-limit');
