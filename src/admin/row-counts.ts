import type { MaybePromise } from '../contract/store.js';
import {
  deniedRow,
  minuteRow,
  stepRow,
  parseRow,
  SECONDS_ROW,
  type DeniedRow,
  type MinuteRow,
  type SecondRow,
} from '../stores/counts/count-rows.js';
import { hoursUntil, parseDenials } from '../stores/counts/denials.js';
import { minuteOf, SECONDS_LIFE_MS } from '../stores/counts/history.js';
import type { KeyText } from '../stores/keys.js';
import { MINUTE_MS } from '../stores/counts/times.js';
import { startsUntil } from './kept-counts.js';
import type { CountSource } from './state.js';

/** The part of a database that has counts. */
interface Rows {
  now(): MaybePromise<number>;
  states(keys: readonly string[]): MaybePromise<readonly (Uint8Array | undefined)[]>;
  rowsAfter(key: string): MaybePromise<readonly { readonly key: string; readonly state: Uint8Array }[]>;
}

export const rowCounts = (rows: Rows, text: KeyText): CountSource => ({
  text,

  async read() {
    const now = await rows.now();
    const counts: SecondRow[] = [];
    for (let last = SECONDS_ROW; ;) {
      const page = await rows.rowsAfter(last);
      const own = page.filter(({ key }) => key.startsWith(SECONDS_ROW));
      for (const { state } of own) {
        const row = parseRow<Partial<SecondRow>>(state);
        if (row.counted && row.at! > now - SECONDS_LIFE_MS && row.at! <= now) counts.push(row as SecondRow);
      }
      if (own.length < page.length || page.length === 0) break;
      last = page.at(-1)!.key;
    }
    return { now, counts: counts.sort((a, b) => a.at - b.at) };
  },

  async minutes(count, length, name) {
    const minutes = startsUntil(await rows.now(), count, length);
    const keys = minutes.map(length === MINUTE_MS ? minuteRow : stepRow);
    const found = (await rows.states(keys)).map((row) => parseRow<MinuteRow>(row));
    const all = [...new Set(found.flatMap((row) => Object.keys(row)))];
    const names = all.filter((each) => name === undefined || each === name).sort();
    const countsIn = (each: string) =>
      found.map((row) =>
        minuteOf(
          Object.entries(row[each] ?? {})
            .flat()
            .map(String),
        ),
      );
    return { minutes, limiters: new Map(names.map((each) => [each, countsIn(each)])) };
  },

  async denials(owners) {
    const hours = hoursUntil(await rows.now());
    return Promise.all(
      owners.map(async (owner) => {
        const records = await rows.states(hours.map((hour) => deniedRow(owner, hour)));
        return hours.flatMap((hour, i) => {
          const [text] = parseRow<DeniedRow>(records[i])[owner] ?? [];
          return (text !== undefined && parseDenials(text, hour)) || [];
        });
      }),
    );
  },
});
