// The sources of createAdmin: a URL is not the path of a file.
import { readdirSync } from 'node:fs';
import { expect } from 'chai';
import { createAdmin } from 'headgate/admin';
import { sqliteStore } from 'headgate/sqlite';

describe('the URL of a server in place of a client', () => {
  for (const url of [
    'redis://:s3cret@127.0.0.1:6379',
    'rediss://h',
    'valkey://h',
    'postgres://u:s3cret@h/d',
    'https://h',
  ])
    it(`${url.split(':')[0]}: is refused with the fix, without the password`, () => {
      const before = readdirSync('.');
      for (const open of [createAdmin, sqliteStore])
        expect(() => open(url))
          .to.throw(/new Redis\(url\).*new Pool\(\{ connectionString: url \}\)/)
          .with.property('message')
          .not.match(/s3cret/);
      expect(readdirSync('.')).to.deep.equal(before);
    });
});
