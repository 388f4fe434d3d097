import { subscribe } from 'node:diagnostics_channel';
import { hasQuota } from '../options.js';
import { warnOnce } from '../../common/warnings.js';

interface Context {
  hasDecorator(name: string): boolean;
  addHook(name: 'onRoute', hook: (this: Context, route: { url: string; config?: object }) => void): unknown;
  addHook(name: 'onReady', hook: (done: () => void) => void): unknown;
}

/**
 * Warns of routes with limits but without a plugin, in every Fastify app that is created from now on.
 *
 * @param isLimited whether a context has the plugin
 */
export function watchForRoutes(isLimited: (context: Context) => boolean): void {
  subscribe('fastify.initialization', (message) => {
    const { fastify } = message as { fastify: Context };
    const routes: { url: string; context: Context }[] = [];
    fastify.addHook('onRoute', function ({ url, config }) {
      const settings: unknown = (config as { rateLimit?: unknown } | undefined)?.rateLimit;
      const saysQuota = (each: unknown) => typeof each === 'object' && each !== null && hasQuota(each);
      if ([settings].flat().some(saysQuota)) routes.push({ url, context: this });
    });
    fastify.addHook('onReady', (done) => {
      // The app may have another rate limiter, whose routes also have a `config.rateLimit`.
      const open = routes.find(
        ({ context }) => !isLimited(context) && !context.hasDecorator('createRateLimit'),
      );
      if (open) {
        warnOnce(
          'HEADGATE_PLUGIN_MISSING',
          `The route ${open.url} has a config.rateLimit, but its context has no plugin, so the route is not limited. Write ` +
            'await fastify.register(rateLimitPlugin) before it.',
        );
      }
      done();
    });
  });
}
