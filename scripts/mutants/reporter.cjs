// Mocha's JSON report of a run that ends with the first failure. A test that only takes too long is none.
const { reporters } = require('mocha');

module.exports = class extends reporters.JSON {
  /**
   * @param {Mocha.Runner} runner
   * @param {Mocha.MochaOptions} options
   */
  constructor(runner, options) {
    super(runner, options);
    runner.on('fail', (_test, { code }) => {
      if (code !== 'ERR_MOCHA_TIMEOUT') runner.abort();
    });
  }
};
