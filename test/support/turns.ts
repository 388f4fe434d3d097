import { setImmediate as turn } from 'node:timers/promises';
import { arrive } from '../../src/turn.js';

/** Lets requests come one at a time, until earlier tests' crowds are forgotten. */
export async function calm(): Promise<void> {
  for (let i = 0; i < 50; i++) {
    arrive();
    await turn();
  }
}
