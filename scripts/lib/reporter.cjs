// Mocha's usual output, and its JSON report in the file that the reporter option `output` names.
const { reporters } = require('mocha');

module.exports = class extends reporters.Spec {
  /**
   * @param {Mocha.Runner} runner
   * @param {Mocha.MochaOptions} options
   */
  constructor(runner, options) {
    super(runner, options);
    new reporters.JSON(runner, options);
  }
};
