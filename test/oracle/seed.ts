/** The seed of a run: HEADGATE_ORACLE_SEED, to repeat one, or a new one, which the run prints. */
export const seedOfRun = (): number =>
  Number(process.env['HEADGATE_ORACLE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
