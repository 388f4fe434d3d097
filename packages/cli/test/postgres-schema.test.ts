// The SQL of the tables of a postgresStore on the command line.
import { expect } from 'chai';
import { postgresSchema } from 'headgate/postgres';
import { headgate, json } from './cli.js';

describe('postgres-schema', () => {
  it('prints the SQL of the tables', async () => {
    expect((await headgate(['postgres-schema'])).stdout.trim()).to.equal(postgresSchema().trim());
    const options = ['--table', 'limits.headgate', '--no-unlogged'];
    expect(await json('postgres-schema', ...options)).to.deep.equal({
      sql: postgresSchema({ table: 'limits.headgate', unlogged: false }),
    });
  });

  it('refuses other names', async () => {
    const { code, stderr } = await headgate(['postgres-schema', '--table', 'a;b']);
    expect(code).to.equal(2);
    expect(stderr).to.contain('letters, digits and underscores');
  });
});
