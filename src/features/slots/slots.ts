import { leaseTag } from './lease-name.js';
import { holdsSlots, type Query } from '../../contract/store.js';
import type { Feature } from '../feature.js';
import { text } from '../layout.js';

/** Names the slots that a request takes. */
export const slots: Feature = {
  name: 'slots',
  appliesTo: holdsSlots,
  isInLooks: true,
  requestArgs: { lease: text((query: Query) => query.lease || leaseTag(query)) },
};
