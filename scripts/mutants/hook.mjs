// Runs in each process of Stryker that has a test file: one that does not load, or leaves something behind, fails as a test would.
process.once('exit', (code) => {
  if (code) process.stdout.write(`not ok 1 the process ends with ${code}\n`);
});
