import type { ChargeChange, PolicySet } from '../../contract/store.js';
import type { Feature } from '../feature.js';
import { number, text } from '../layout.js';
import { ID_TAG } from './id-record.js';
import { claims, recall, remember } from './id-state.js';
import { checkId, idLifeOf, idText, policiesText, repeatsOf } from './id-rules.js';

/** Answers the repetition of a charged request with the first decision, without a charge. */
export const ids: Feature = {
  name: 'ids',
  // A repetition is admitted even while its key is denied.
  option: { name: 'id', checkFor: checkId, change: 'claim', needsStore: true },
  appliesTo: () => true,
  args: {
    id_life: number(idLifeOf),
    id_repeats: number(repeatsOf),
    id_policies: text<PolicySet>(policiesText),
  },
  changeArgs: {
    id_step: number(({ claim }: ChargeChange) => claim!.step),
    id_is_first: number(({ claim }: ChargeChange) => Number(claim!.isFirst)),
    id_owner: text(({ claim }: ChargeChange) => claim!.owner),
    id_is_last: number(({ claim }: ChargeChange) => Number(claim!.isLast)),
    id_is_automatic: number(({ claim }: ChargeChange) => Number(claim!.isAutomatic === true)),
  },
  keys(to, headsOf, request) {
    const { first, text } = headsOf(request.idHome ?? request);
    // The id of a request with several keys contains them, and keys may be secret.
    to.push(`${first}}${ID_TAG}${idText(text(request.id!))}`);
  },
  changeKeys(to, headsOf, change) {
    const { step, id } = change.claim!;
    const { first, text } = headsOf(change.idHome ?? change);
    to.push(`${first}}${ID_TAG}${idText(text(id))}.${step.toString(36)}`);
  },
  sharesStep: true,
  read(reply, at, answer, readVerdict) {
    const origin = reply[at];
    if (typeof origin !== 'number') return at;
    if (origin === -1) answer.isIdSpent = true;
    // Behind a step, the request is a repetition. Otherwise it was decided now.
    if (origin <= 0) return at + 1;
    const [by, costs, sinceFirst, count] = reply.slice(at + 1, at + 5) as [string, string, number, number];
    const numbers = reply as readonly number[];
    const verdicts: number[] = [];
    const limits: number[] = [];
    const end = at + 5 + count;
    for (let place = at + 5, policy = 0; place < end; policy++) {
      if (numbers[place] === -2) {
        limits[policy] = numbers[place + 1]!;
        place += 2;
      }
      place = readVerdict(numbers, place, verdicts);
    }
    const first = { by, costs: costs.split(',').slice(1).map(Number), verdicts };
    Object.assign(answer, { now: Math.floor(origin / 1000), step: origin, sinceFirst });
    answer.first = limits.length > 0 ? { ...first, limits } : first;
    return end;
  },
  before: recall,
  after: remember,
  mayChange: claims,
};
