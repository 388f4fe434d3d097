import { Controller, type Type } from '@nestjs/common';
import { RateLimit, SkipRateLimit } from 'headgate/nestjs';
import { all, decorate } from './nest.js';

const fixed = (limit: number) => ({ algorithm: 'fixed-window', limit, window: '1m' }) as const;

/** Two handlers with a common limit, a handler with a separate limit, the rest with the module's quota, with two limits, and without a limit. */
export function sharedController(path = ''): Type {
  class Shop {
    a() {
      return 'a';
    }
    b() {
      return 'b';
    }
    own() {
      return 'own';
    }
    global() {
      return 'global';
    }
    twice() {
      return 'twice';
    }
    free() {
      return 'free';
    }
  }
  for (const path of ['a', 'b', 'own', 'global', 'twice', 'free']) decorate(Shop, path, all(path));
  decorate(Shop, 'own', RateLimit(fixed(1)));
  decorate(Shop, 'global', RateLimit());
  decorate(Shop, 'twice', RateLimit(fixed(2), fixed(1)));
  decorate(Shop, 'free', SkipRateLimit());
  RateLimit(fixed(2))(Shop);
  Controller(path)(Shop);
  return Shop;
}
