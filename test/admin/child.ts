// Bans keys one by one until the process is killed.
import { Redis } from 'ioredis';
import { createAdmin } from 'headgate/admin';

const [port, prefix, by] = process.argv.slice(2) as [string, string, string];
const admin = createAdmin(new Redis(Number(port)), { prefix });
for (let i = 0; ; i++) await admin.ban(`${by}${i}`, '1m', { name: 'api', force: true, by, reason: 'a test' });
