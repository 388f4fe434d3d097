import { count, share } from '../format.js';
import type { MatchedPart } from './match.js';

/** Fewer requests show nothing about all of them. */
const FEW = 10;

const DAY = 86_400_000;
const HOUR = 3_600_000;
const MINUTE = 60_000;

/** Repeated ids are worth a note from this share of the requests on. */
const MANY_REPEATED = 0.05;

/** Collects the signs that a log was not read as it was meant. Each comes with the option that mends it. */
export class Doubts {
  requests = 0;
  #first = Infinity;
  #last = -Infinity;
  /** The longest of a day, an hour and a minute that divides all times. */
  #unit = DAY;
  /** Clients that were looked for by address, those that are other words, and the first of these. */
  #clients = 0;
  #odd = 0;
  #sample = '';
  /** Whether the format has named fields, so that options can name them. */
  #named = false;
  /** Requests that lack a part by which `--match` selects. */
  readonly #lacking = new Map<MatchedPart, number>();
  #lines = 0;
  /** The options that name a field, and the requests of formats with and without named fields. */
  readonly #fieldOptions: readonly string[];
  #withNames = 0;
  #withoutNames = 0;

  /** @param fieldOptions the passed options that name a field of the lines */
  constructor(fieldOptions: readonly string[] = []) {
    this.#fieldOptions = fieldOptions;
  }

  format(hasNames: boolean): void {
    if (hasNames) this.#withNames += 1;
    else this.#withoutNames += 1;
  }

  request(time: number): void {
    this.requests += 1;
    if (time < this.#first) this.#first = time;
    if (time > this.#last) this.#last = time;
    while (this.#unit >= MINUTE && time % this.#unit !== 0)
      this.#unit = this.#unit === DAY ? HOUR : this.#unit === HOUR ? MINUTE : 1;
  }

  client(text: string, isOdd: boolean, isNamed: boolean): void {
    this.#clients += 1;
    this.#named = isNamed;
    if (!isOdd) return;
    if (this.#odd === 0) this.#sample = text;
    this.#odd += 1;
  }

  /** Notes a request that `--match` filters, and the parts that it lacks. */
  filtered(lacking: readonly MatchedPart[]): void {
    this.#lines += 1;
    for (const part of lacking) this.#lacking.set(part, (this.#lacking.get(part) ?? 0) + 1);
  }

  /** The sign that makes all results wrong, or `undefined`. */
  refusal(): string | undefined {
    const options = this.#fieldOptions.join(', ');
    if (options !== '' && this.#withoutNames > 0 && this.#withNames === 0)
      return `${options}: the fields of this format have no names. Omit the option, or log JSON.`;
    if (this.requests >= FEW && this.#unit === DAY) {
      return (
        'all times are at midnight, so the time of day is in another field. Pass the field of the time, or two fields together: ' +
        "--time-field 'date time'."
      );
    }
    if (this.#named && this.#odd > 0 && this.#odd === this.#clients) {
      return (
        `no client is an address; the first is ${JSON.stringify(this.#sample.slice(0, 50))}. To limit by such names, or by another ` +
        'field, pass the field: --key-field <field>.'
      );
    }
    for (const [part, lacking] of this.#lacking) {
      if (lacking === this.#lines)
        return `no request has a ${part}, which --match needs. Pass its field: --${part}-field <field>.`;
    }
    return undefined;
  }

  /** The signs that some results may be wrong. @param repeated requests with the id of another one */
  notes(repeated: number): string[] {
    const notes: string[] = [];
    const of = (part: number, whole: number): string =>
      `${count(part)} of ${count(whole)} requests (${share(part, whole)})`;
    if (this.requests >= FEW && this.#first === this.#last)
      notes.push(
        'all requests have the same time; if the log has another time, pass its field: --time-field <field>',
      );
    else if (this.requests >= FEW && this.#unit >= MINUTE)
      notes.push(
        `all times are whole ${this.#unit === HOUR ? 'hours' : 'minutes'}, so limits for shorter windows are wrong; pass a more ` +
          'exact field: --time-field <field>',
      );
    if (this.#odd > 0) {
      const mend = this.#named ? '; pass the field of the client: --key-field <field>' : '';
      const sample = JSON.stringify(this.#sample.slice(0, 50));
      notes.push(
        `${of(this.#odd, this.#clients)} have a client that is not an address, such as ${sample}${mend}`,
      );
    }
    for (const [part, lacking] of this.#lacking)
      notes.push(
        `${of(lacking, this.#lines)} have no ${part}, which --match needs; pass its field: --${part}-field <field>`,
      );
    if (this.#fieldOptions.length > 0 && this.#withoutNames > 0)
      notes.push(
        `${of(this.#withoutNames, this.#withNames + this.#withoutNames)} are of a format whose fields have no names, so ` +
          `${this.#fieldOptions.join(', ')} did not apply to them`,
      );
    if (repeated > MANY_REPEATED * this.requests)
      notes.push(
        `${of(repeated, this.requests)} have the same id as another request shortly before; if two proxies logged each request, pass the ` +
          'log of only one of them',
      );
    return notes;
  }
}
