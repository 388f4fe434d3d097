import { flood } from './flood.js';

process.send!(await flood(Number(process.argv[2]), Number(process.argv[3])));
