// Runs in each process of Stryker with a test file. A file that does not load, or leaves something behind, fails like a test.
process.once('exit', (code) => {
  if (code) process.stdout.write(`not ok 1 the process ends with ${code}\n`);
});
