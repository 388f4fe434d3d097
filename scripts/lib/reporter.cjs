// Mocha's usual output, and its JSON report as a file in the folder of the reporter option `output`.
const { join } = require('node:path');
const { reporters } = require('mocha');

module.exports = class extends reporters.Spec {
  /**
   * @param {Mocha.Runner} runner
   * @param {Mocha.MochaOptions & { reporterOption: { output: string } }} options
   */
  constructor(runner, options) {
    super(runner, options);
    const output = join(options.reporterOption.output, `${process.env['HEADGATE_RUN'] ?? process.pid}.json`);
    new reporters.JSON(runner, Object.assign({}, options, { reporterOption: { output } }));
  }
};
