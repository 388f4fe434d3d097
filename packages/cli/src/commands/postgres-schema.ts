import { postgresSchema, type PostgresSchemaOptions } from 'headgate/postgres';
import type { CliCommand } from '../command.js';
import { orUsage } from '../errors.js';
import { write, writeJson, type Io } from '../io.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('postgres-schema')
    .summary('the SQL of the tables of a postgresStore')
    .description(
      'Prints the SQL that creates the tables of a postgresStore, for tools that migrate databases. Connects to nothing.',
    )
    .option('--table <name>', 'the name of the table, optionally with a schema')
    .option('--no-unlogged', 'a table that survives a crash of the server')
    .answers('a document: sql')
    .example('postgres-schema --table limits.headgate > migrations/042-headgate.sql')
    .action(async (options: PostgresSchemaOptions) => {
      const sql = orUsage(() => postgresSchema(options));
      await (io.json ? writeJson(io, { sql }) : write(io, sql));
    });
}
