import { setImmediate } from 'node:timers/promises';
import { identityOf, lacksSlots, type Admin, type KeyView, type LoggedChange } from 'headgate/admin';
import { Answers } from './answers.js';
import { BanOrigins, isOfKey } from './ban-origins.js';
import { changeRow } from './change-row.js';
import type { Show } from './hidden.js';
import { optional, refuse, text, type Body } from './input.js';
import { SeenTiers, settledTiers } from './open-tiers.js';
import { Turns } from './turns.js';
import type { HasLeft } from './visitors.js';
import { onPage } from './words.js';

/** The most changes of one key, and the newest changes among which those of a key are searched. */
const LOGGED = 50;
const SCANNED = 2_000;
const STEP = 100;

/** The age of an answer, ms. The page asks again every 5 s. A change from the page shows at once. */
const ANSWERS_MS = 2_000;

/** The longest search for the shared limits of a key, ms. */
const TIMEOUT_MS = 2_000;

/** The most questions that wait. They have their own turns, so that asked keys do not delay the searches of limiters. */
const MAX_WAITING = 10;

/** A network of addresses, apart from the keys that limiters make of IPv6 addresses. */
const NETWORK = /^(\d{1,3}(\.\d{1,3}){3}\/(\d|[12]\d|3[01])|[\da-f:]*:[\da-f:]*\/([1-4]?\d|5[0-5]))$/i;

interface Asked {
  readonly key: string;
  readonly options: { readonly dimension?: string };
  /** A network has many keys, and so no single answer. It can be banned and reset. */
  readonly isNetwork: boolean;
}

/**
 * The answers to questions about a typed key. A key may be a tenant of shared limits, whose state is searched for it: each search is bounded,
 * and one runs at a time, so that no visitor can load the application.
 */
export class KeyQuestions {
  readonly #admin: Admin;
  readonly #show: Show;
  readonly #tiers: SeenTiers;
  readonly #origins: BanOrigins;
  readonly #answers = new Answers<object>(ANSWERS_MS, new Turns(MAX_WAITING));

  /** @param tiers the tiers that keys had lately */
  constructor(admin: Admin, show: Show, tiers = new SeenTiers()) {
    this.#admin = admin;
    this.#show = show;
    this.#tiers = tiers;
    this.#origins = new BanOrigins(admin);
  }

  /** The answers of all limiters to a typed key, and the changes of this key and of all keys. */
  key(body: Body, visitor: HasLeft): Promise<object> {
    const asked = askedIn(body);
    return this.#answers.get(idOf('key', asked), () => this.#key(asked), visitor);
  }

  /** The denials of a typed key in the past. */
  async past(body: Body, visitor: HasLeft): Promise<object> {
    const asked = askedIn(body);
    if (asked.isNetwork) return { denials: [], isCounted: true };
    return this.#answers.get(idOf('past', asked), () => this.#past(asked), visitor);
  }

  /** Makes the next reading show a change that was made just now. */
  expire(): void {
    this.#answers.expire();
  }

  async #key({ key, options, isNetwork }: Asked): Promise<object> {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const views = isNetwork ? [] : await this.#admin.key(key, { ...options, signal });
    if (views.length === 0) refuseCut(signal);
    const logged = await this.#changesOf(key, views);
    const open = views.filter(
      ({ bannedForMs, bannedBy, banReason }) => bannedForMs > 0 && bannedBy === null && banReason === null,
    );
    const found = await this.#origins.of(open.map((view) => ({ ...view, by: null, reason: null })));
    const origins = new Map(open.map((view, i) => [identityOf(view), found[i]]));
    const settled = await settledTiers(views, logged, {
      log: this.#admin.log,
      denialsIn: (place) => this.#admin.denials(key, { ...place, signal }),
    });
    this.#tiers.note(settled);
    const shown = this.#tiers.marked(settled).map((view) => ({
      ...this.#hidden(view),
      warnings: view.warnings.map((each) => ({ ...each, message: onPage(each.message) })),
      // The policies of a tenant have the key of the shared limit.
      ...(view.within !== undefined && {
        policies: view.policies.map((each) => ({ ...each, key: this.#show(each.key) })),
      }),
      lacksSlots: view.reason !== 'banned' && lacksSlots(view.policies),
      ...(origins.has(identityOf(view)) && { banOrigin: origins.get(identityOf(view)) }),
    }));
    // The visitor typed this key, so it is not hidden here, while the key of a shared limit, a network and other keys of an import are.
    const typed = new Set<unknown>([key, ...views.map((view) => view.key)]);
    const show: Show = (each) => (typed.has(each) ? (each as never) : this.#show(each));
    const changes = logged.map(({ imported: _, ...change }) => changeRow(change, show));
    return { key, isNetwork, views: shown, changes };
  }

  /** The changes of the key and of all keys. */
  async #changesOf(key: string, views: readonly KeyView[]): Promise<LoggedChange[]> {
    const keys = new Set([key, ...views.map((view) => view.key)]);
    const found: LoggedChange[] = [];
    let scanned = 0;
    for await (const change of this.#admin.log({ withKeys: views })) {
      const { key: changed, network, imported, action, name } = change;
      // Limits of all keys are those of this key, too.
      const isOfAll = changed === undefined && (action === 'override' || action === 'remove');
      const view = views.find((each) => isOfKey(change, each));
      const own = imported?.find((each) => view && each.key === view.key);
      const isOwn =
        view !== undefined ||
        (isOfAll && views.some((each) => each.name === name)) ||
        [changed, network].some((each) => typeof each === 'string' && keys.has(each));
      if (isOwn) found.push({ ...change, ...(own && { forMs: own.forMs }) });
      if (found.length === LOGGED || ++scanned === SCANNED) break;
      // Other requests have their turn.
      if (scanned % STEP === 0) await setImmediate();
    }
    return found;
  }

  async #past({ key, options }: Asked): Promise<object> {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const denials = await this.#admin.denials(key, { ...options, signal });
    if (denials.length === 0) refuseCut(signal);
    return { denials: denials.map((each) => this.#hidden(each)), isCounted: this.#admin.isCounted };
  }

  #hidden<T extends { readonly within?: Parameters<Show>[0] }>(each: T) {
    return { ...each, ...(each.within !== undefined && { within: this.#show(each.within) }) };
  }
}

/** Refuses an empty answer after a search that ended early. */
function refuseCut({ aborted }: AbortSignal): void {
  if (aborted)
    refuse(
      `The answer took longer than ${TIMEOUT_MS / 1000} s, as with very many keys. Use the command line.`,
      503,
    );
}

const idOf = (question: 'key' | 'past', { key, options }: Asked): string =>
  JSON.stringify([question, key, options.dimension]);

function askedIn(body: Body): Asked {
  const key = text(body, 'key');
  const dimension = optional(body, 'dimension', text);
  return {
    ...{ key, options: dimension === undefined ? {} : { dimension } },
    isNetwork: dimension === undefined && NETWORK.test(key),
  };
}
