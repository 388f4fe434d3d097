// The parts that features add to the types of the core, beside their rules in `PolicySet`. A new feature has a line in those that it extends.
import type { BanReply, BanStore } from '../features/bans/contract/ban-options.js';
import type { IdChange, IdOption, IdQuery, IdReply, IdStore } from '../features/ids/contract/ids.js';
import type { OverridingStore } from '../features/overrides/contract/override-store.js';
import type { OverrideReply, OverrideUsage } from '../features/overrides/contract/records.js';
import type { WeightOption, WeightQuery } from '../features/shares/contract/weight.js';
import type { SlotQuery, SlotStore } from '../features/slots/contract/lease.js';
import type { ThresholdReply } from '../features/thresholds/contract/crossing.js';
import type { PolicySet, Subject } from './policy-set.js';

/** Of `Query`. */
export interface QueryParts extends IdQuery<Subject>, SlotQuery, WeightQuery {}

/** Of `Reply`. */
export interface ReplyParts extends BanReply, OverrideReply, IdReply, ThresholdReply {}

/** Of `UsageReply`. */
export type UsageParts = OverrideUsage;

/** Of `ChargeChange`. */
export type ChangeParts = IdChange<Subject>;

/** Of `Store`. */
export interface StoreParts extends BanStore<Subject>, SlotStore, OverridingStore, IdStore<PolicySet> {}

/** Of the options of `consume`, `peek`, `acquire` and `wait`. */
export type AskingOptions = WeightOption;

/** Of the options of `consume`. */
export type ChargingOptions = IdOption;

/** The features' options of a request. */
export interface RequestFields extends AskingOptions, ChargingOptions {}
