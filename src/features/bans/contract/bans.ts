import type { CompiledBan } from './ban-options.js';

/** The part of a policy set about bans. */
export interface BanRules<Set> {
  /** The ban options, or undefined if the limiter never bans. */
  readonly ban?: CompiledBan | undefined;
  /** Set if a ban by denials forgets charges of the banned key, in the step that begins the ban: those in these policies, which may grow in number. */
  readonly freshBans?: { readonly charges: Set } | undefined;
}

/** The part of a reply about bans. */
export interface BanReply {
  /**
   * 0 if the key is not banned. Above 0: the ms that the key is still banned for; nothing was charged. Below 0: the denial started a
   * ban of as many ms.
   */
  readonly ban: number;
}

/** The dimension of bans. */
export interface BanDimension {
  /** The dimension whose key is banned. */
  readonly banBy: string;
}

/** The bans of a limiter as a store may show them to operators. */
export interface BanAnnouncement extends BanDimension {
  /** The ban options, or undefined if the limiter never bans. */
  readonly ban: CompiledBan | undefined;
}
