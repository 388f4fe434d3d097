// Answers of real APIs: the status and the header fields that concern limits, and whether the answer denies the call and for how long.
// Where a source shows no whole answer, but names the fields and their format, the figures are ours. `denied` is in ms; 'unknown': the
// answer names no wait. Answers without `date` were sent at NOW.

/** 2026-11-23T22:00:00Z */
export const NOW = 1_795_471_200_000;

export interface RealAnswer {
  readonly from: string;
  readonly source: string;
  readonly status: number;
  readonly fields: Readonly<Record<string, string>>;
  readonly denied: number | 'unknown' | false;
}

const github = 'https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api';
const openai = 'https://platform.openai.com/docs/guides/rate-limits';
const anthropic = 'https://docs.anthropic.com/en/api/rate-limits';
const discord = 'https://docs.discord.com/developers/topics/rate-limits';
const docker = 'https://github.com/docker/docs/pull/13499';

/** Three fields with a prefix. */
function three(prefix: string, limit: string, remaining: string, reset: string): Record<string, string> {
  return { [`${prefix}limit`]: limit, [`${prefix}remaining`]: remaining, [`${prefix}reset`]: reset };
}

export const REAL_ANSWERS: readonly RealAnswer[] = [
  {
    ...{ from: 'OpenAI, requests used up', source: openai, status: 429, denied: 1000 },
    fields: {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-tokens': '149984',
      'x-ratelimit-reset-tokens': '6m0s',
    },
  },
  {
    ...{ from: 'OpenAI, tokens left, but too few', source: openai, status: 429, denied: 8640 },
    fields: {
      'x-ratelimit-limit-requests': '10000',
      'x-ratelimit-remaining-requests': '9999',
      'x-ratelimit-reset-requests': '8ms',
      'x-ratelimit-limit-tokens': '30000',
      'x-ratelimit-remaining-tokens': '1170',
      'x-ratelimit-reset-tokens': '8.64s',
    },
  },
  {
    ...{
      from: 'OpenAI, exact wait',
      source: 'https://github.com/openai/openai-node',
      status: 429,
      denied: 350,
    },
    fields: { 'retry-after': '1', 'retry-after-ms': '350' },
  },
  {
    ...{ from: 'OpenAI, fields stripped', source: 'https://github.com/openai/openai-node/issues/1477' },
    ...{ status: 429, denied: 'unknown', fields: { 'openai-processing-ms': '5977' } },
  },
  {
    ...{ from: 'OpenAI, requests a day', source: 'https://github.com/vectorize-io/hindsight/pull/3508' },
    ...{ status: 429, denied: 360_000 },
    fields: {
      'x-ratelimit-limit-requests': '200',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '6m0s',
    },
  },
  {
    ...{ from: 'OpenAI, answered', source: openai, status: 200, denied: false },
    fields: { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1s' },
  },
  {
    ...{ from: 'Azure OpenAI, a reset alone', source: 'https://github.com/openai/openai-python/issues/937' },
    ...{ status: 429, denied: 55_000 },
    fields: { 'x-rate-limit-reset-tokens': '55', 'x-ratelimit-remaining-requests': '119' },
  },
  {
    ...{ from: 'Azure OpenAI, figures of -1', source: 'https://github.com/openai/openai-dotnet/issues/838' },
    ...{ status: 429, denied: 'unknown' },
    fields: {
      'x-ratelimit-limit-tokens': '-1',
      'x-ratelimit-remaining-tokens': '-1',
      'x-ratelimit-reset-tokens': '0',
    },
  },
  {
    ...{ from: 'Azure OpenAI, a day', source: 'https://github.com/alex-wolf-ps/dbchatprov2/issues/2' },
    ...{ status: 429, denied: 86_400_000, fields: { 'retry-after': '86400' } },
  },
  {
    ...{ from: 'Anthropic, input tokens', source: 'https://github.com/whoz-oss/coday/issues/110' },
    ...{ status: 429, denied: 16_000 },
    fields: {
      'retry-after': '16',
      'anthropic-ratelimit-input-tokens-limit': '200000',
      'anthropic-ratelimit-input-tokens-remaining': '0',
      'anthropic-ratelimit-input-tokens-reset': '2025-06-02T15:15:48Z',
      'anthropic-ratelimit-requests-limit': '4000',
      'anthropic-ratelimit-requests-remaining': '4000',
      'anthropic-ratelimit-requests-reset': '2025-06-02T15:14:45Z',
    },
  },
  {
    from: 'Anthropic, without Retry-After',
    source: 'https://github.com/anthropics/anthropic-sdk-typescript/issues/357',
    ...{ status: 429, denied: 1000 },
    fields: {
      date: 'Tue, 26 Mar 2024 19:59:59 GMT',
      ...three('anthropic-ratelimit-requests-', '5', '0', '2024-03-26T20:00:00Z'),
      ...three('anthropic-ratelimit-tokens-', '25000', '16000', '2024-03-26T20:00:00Z'),
    },
  },
  {
    ...{ from: 'Anthropic, overloaded', source: anthropic, status: 529, denied: 5000 },
    fields: { 'retry-after': '5', 'x-should-retry': 'true' },
  },
  {
    ...{
      from: 'Anthropic, overloaded without a wait',
      source: 'https://github.com/tombii/better-ccflare/issues/271',
    },
    ...{ status: 529, denied: false, fields: { 'x-should-retry': 'true' } },
  },
  {
    ...{ from: 'Groq', source: 'https://console.groq.com/docs/rate-limits', status: 429, denied: 2000 },
    fields: {
      'retry-after': '2',
      'x-ratelimit-limit-tokens': '18000',
      'x-ratelimit-remaining-tokens': '17997',
      'x-ratelimit-reset-tokens': '7.66s',
      'x-ratelimit-reset-requests': '2m59.56s',
    },
  },
  {
    ...{ from: 'Cerebras', source: 'https://inference-docs.cerebras.ai/support/rate-limits', status: 429 },
    denied: 11_383,
    fields: {
      'x-ratelimit-limit-tokens-minute': '60000',
      'x-ratelimit-remaining-tokens-minute': '0',
      'x-ratelimit-reset-tokens-minute': '11.382883071899414',
      'x-ratelimit-limit-requests-day': '1000000000',
      'x-ratelimit-remaining-requests-day': '999997455',
      'x-ratelimit-reset-requests-day': '33011.382867097855',
    },
  },
  {
    ...{ from: 'GitHub, primary limit', source: github, status: 403, denied: 90_000 },
    fields: { ...three('x-ratelimit-', '5000', '0', '1795471290'), 'x-ratelimit-resource': 'core' },
  },
  {
    ...{ from: 'GitHub, primary limit by 429', source: github, status: 429, denied: 90_000 },
    fields: three('x-ratelimit-', '60', '0', '1795471290'),
  },
  {
    ...{ from: 'GitHub, secondary limit with Retry-After', source: github, status: 403, denied: 60_000 },
    fields: { 'retry-after': '60', ...three('x-ratelimit-', '5000', '4940', '1795473000') },
  },
  {
    // Only the body shows the denial: the option `denied`.
    from: 'GitHub, secondary limit in the body',
    source: 'https://github.com/KnpLabs/php-github-api/pull/1072',
    ...{ status: 403, denied: false },
    fields: {
      date: 'Mon, 13 Jun 2022 11:48:53 GMT',
      ...three('x-ratelimit-', '30', '14', '1655120964'),
      'x-ratelimit-used': '16',
      'x-ratelimit-resource': 'search',
    },
  },
  {
    from: 'GitHub, secondary limit by 429, with units left',
    source: 'https://github.com/octokit/plugin-throttling.js/issues/566',
    ...{ status: 429, denied: 31_000 },
    fields: {
      date: 'Mon, 13 Jun 2022 11:48:53 GMT',
      ...three('x-ratelimit-', '30', '14', '1655120964'),
    },
  },
  {
    ...{ from: 'GitHub, no permission', source: github, status: 403, denied: false },
    fields: three('x-ratelimit-', '5000', '4999', '1795473000'),
  },
  {
    ...{ from: 'GitLab', source: 'https://github.com/jdalrymple/gitbeaker/issues/3411', status: 429 },
    denied: 60_000,
    fields: {
      date: 'Fri, 15 Sep 2023 15:27:46 GMT',
      ...three('ratelimit-', '2000', '0', '1694791726'),
      'ratelimit-resettime': 'Fri, 15 Sep 2023 15:28:46 GMT',
    },
  },
  {
    from: 'X, units left',
    source: 'https://github.com/elizaOS/agent-twitter-client/issues/68',
    ...{ status: 429, denied: 906_000, fields: three('x-rate-limit-', '50', '49', '1795472106') },
  },
  {
    ...{ from: 'X, the day of the app', source: 'https://github.com/plhery/node-twitter-api-v2/issues/495' },
    ...{ status: 429, denied: 3_600_000 },
    fields: {
      ...three('x-rate-limit-', '50', '49', '1795472106'),
      ...three('x-app-limit-24hour-', '100', '0', '1795474800'),
    },
  },
  {
    ...{ from: 'X, the day of the user', source: 'https://github.com/plhery/node-twitter-api-v2/issues/553' },
    ...{ status: 429, denied: 7_200_000 },
    fields: {
      ...three('x-rate-limit-', '50', '49', '1795472106'),
      ...three('x-user-limit-24hour-', '17', '0', '1795478400'),
    },
  },
  {
    ...{ from: 'Twitter, enhance your calm', source: 'https://developer.x.com/en/docs/basics/rate-limiting' },
    ...{ status: 420, denied: 30_000, fields: { 'retry-after': '30' } },
  },
  {
    ...{
      from: 'Reddit',
      source: 'https://github.com/praw-dev/praw/issues/2046',
      status: 429,
      denied: 599_000,
    },
    fields: { 'x-ratelimit-remaining': '0.0', 'x-ratelimit-used': '1000', 'x-ratelimit-reset': '599' },
  },
  {
    ...{ from: 'Reddit, at the reset', source: 'https://github.com/praw-dev/praw/issues/2046', status: 429 },
    denied: 0,
    fields: { 'x-ratelimit-remaining': '0.0', 'x-ratelimit-used': '1000', 'x-ratelimit-reset': '0' },
  },
  {
    ...{ from: 'Docker Hub', source: 'https://github.com/docker/hub-feedback/issues/2464', status: 429 },
    denied: 'unknown',
    fields: { 'ratelimit-limit': '100;w=21600', 'ratelimit-remaining': '0;w=21600' },
  },
  {
    ...{ from: 'Docker Hub, answered', source: docker, status: 200, denied: false },
    fields: { 'ratelimit-limit': '100;w=21600', 'ratelimit-remaining': '76;w=21600' },
  },
  {
    ...{
      from: 'Docker Hub, abuse',
      source: 'https://github.com/docker/hub-feedback/issues/1907',
      status: 429,
    },
    ...{ denied: 1000, fields: { 'retry-after': '1795471201' } },
  },
  {
    ...{ from: 'Shopify', source: 'https://github.com/MONEI/Shopify-api-node/issues/135', status: 429 },
    ...{ denied: 2000, fields: { 'retry-after': '2.0', 'x-shopify-shop-api-call-limit': '40/40' } },
  },
  {
    // Only the body shows the denial: the option `denied`.
    ...{ from: 'Shopify, THROTTLED', source: 'https://github.com/Shopify/cli/pull/8317', status: 200 },
    ...{ denied: false, fields: { 'content-type': 'application/json' } },
  },
  {
    ...{ from: 'Shopify, without fields', source: 'https://github.com/nozzlegear/ShopifySharp/issues/350' },
    ...{ status: 429, denied: 'unknown', fields: { 'x-shopify-shop-api-call-limit': '1/40' } },
  },
  {
    // 400 has other causes, too: the option `denied`.
    ...{ from: 'Linear', source: 'https://github.com/linear/linear/pull/694', status: 400, denied: false },
    fields: three('x-ratelimit-requests-', '1500', '0', '1795471260000'),
  },
  {
    ...{ from: 'Linear, complexity', source: 'https://github.com/mre/rate-limits/issues/8', status: 429 },
    denied: 60_000,
    fields: {
      'x-complexity': '60',
      ...three('x-ratelimit-complexity-', '3000000', '0', '1795471260000'),
      ...three('x-ratelimit-requests-', '1500', '1499', '1795474800000'),
    },
  },
  {
    ...{ from: 'Stripe', source: 'https://docs.stripe.com/rate-limits', status: 429, denied: 'unknown' },
    fields: { 'stripe-should-retry': 'true', 'stripe-rate-limited-reason': 'global-rate' },
  },
  {
    ...{ from: 'Slack', source: 'https://github.com/slackapi/java-slack-sdk/issues/64', status: 429 },
    ...{ denied: 30_000, fields: { 'retry-after': '30' } },
  },
  {
    ...{ from: 'Discord, a bucket', source: discord, status: 429, denied: 6457 },
    fields: {
      'retry-after': '6.457',
      ...three('x-ratelimit-', '10', '0', '1795471206.457'),
      'x-ratelimit-reset-after': '6.457',
      'x-ratelimit-scope': 'user',
    },
  },
  {
    ...{ from: 'Discord, a reset rounded by its date', source: discord, status: 429, denied: 1200 },
    fields: { ...three('x-ratelimit-', '5', '0', '1795471202'), 'x-ratelimit-reset-after': '1.2' },
  },
  {
    ...{ from: 'Discord, global', source: discord, status: 429, denied: 65_000 },
    fields: { 'retry-after': '65', 'x-ratelimit-global': 'true', 'x-ratelimit-scope': 'global' },
  },
  {
    ...{
      from: 'Twitch',
      source: 'https://github.com/twitchdev/issues/issues/597',
      status: 429,
      denied: 20_000,
    },
    fields: three('ratelimit-', '800', '0', '1795471220'),
  },
  {
    from: 'Cloudflare',
    source: 'https://developers.cloudflare.com/fundamentals/api/reference/limits',
    ...{ status: 429, denied: 30_000 },
    fields: {
      ratelimit: '"default";r=0;t=30',
      'ratelimit-policy': '"default";q=1200;w=300',
      'retry-after': '30',
    },
  },
  {
    from: 'Cloudflare, behind a proxy that drops Retry-After',
    source: 'https://developers.cloudflare.com/changelog/2025-09-03-rate-limiting-improvement',
    ...{ status: 429, denied: 30_000 },
    fields: {
      ratelimit: '"default";r=50;t=300, "burst";r=0;t=30',
      'ratelimit-policy': '"default";q=1200;w=300, "burst";q=100;w=60',
    },
  },
  {
    from: 'Cloudflare, error 1015',
    source: 'https://developers.cloudflare.com/changelog/post/2026-03-12-retry-after-header-for-1xxx-errors',
    ...{ status: 429, denied: 30_000, fields: { 'retry-after': '30' } },
  },
  {
    ...{ from: 'Twilio', source: 'https://www.twilio.com/docs/errors/20429', status: 429, denied: 'unknown' },
    fields: { 'twilio-concurrent-requests': '101' },
  },
  {
    from: 'SendGrid',
    source: 'https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/rate-limits',
    ...{ status: 429, denied: 15_000 },
    fields: { date: 'Wed, 19 Feb 2014 13:07:28 GMT', ...three('x-ratelimit-', '150', '0', '1392815263') },
  },
  {
    ...{ from: 'Notion', source: 'https://developers.notion.com/reference/request-limits', status: 429 },
    ...{ denied: 3000, fields: { 'retry-after': '3' } },
  },
  {
    ...{ from: 'HubSpot', source: 'https://github.com/HubSpot/hubspot-api-nodejs/issues/416', status: 429 },
    denied: 'unknown',
    fields: {
      'x-hubspot-ratelimit-max': '100',
      'x-hubspot-ratelimit-remaining': '0',
      'x-hubspot-ratelimit-interval-milliseconds': '10000',
    },
  },
  {
    ...{
      from: 'Binance',
      source: 'https://github.com/svanas/nefertiti/issues/55',
      status: 429,
      denied: 35_000,
    },
    fields: { 'retry-after': '35', 'x-mbx-used-weight-1m': '1201' },
  },
  {
    ...{ from: 'Binance, banned', source: 'https://github.com/binance/binance-api-swagger/issues/56' },
    ...{ status: 418, denied: 120_000, fields: { 'retry-after': '120', 'x-mbx-used-weight-1m': '2400' } },
  },
  {
    ...{ from: 'a teapot', source: 'https://www.rfc-editor.org/rfc/rfc2324', status: 418, denied: false },
    fields: {},
  },
  {
    ...{
      from: 'Jira',
      source: 'https://jira.atlassian.com/browse/JRACLOUD-69262',
      status: 429,
      denied: 300_000,
    },
    fields: three('x-ratelimit-', '100', '0', '2026-11-23T22:05Z'),
  },
  {
    ...{ from: 'Jira, a resource limit', source: 'https://jira.atlassian.com/browse/JRACLOUD-69262' },
    ...{ status: 503, denied: 12_000, fields: { 'retry-after': '12' } },
  },
  {
    from: 'Zendesk',
    source:
      'https://developer.zendesk.com/documentation/api-basics/best-practices/best-practices-for-avoiding-rate-limiting',
    ...{ status: 429, denied: 41_000 },
    fields: {
      'x-rate-limit': '700',
      'x-rate-limit-remaining': '0',
      ...three('ratelimit-', '700', '0', '41'),
    },
  },
  {
    ...{ from: 'Okta', source: 'https://developer.okta.com/docs/reference/rl-best-practices/', status: 429 },
    ...{ denied: 45_000, fields: three('x-rate-limit-', '1200', '0', '1795471245') },
  },
  {
    ...{ from: 'Resend', source: 'https://resend.com/changelog/api-rate-limit', status: 429, denied: 1000 },
    fields: { ...three('ratelimit-', '2', '0', '1'), 'retry-after': '1' },
  },
  {
    from: 'lemlist, the date of JavaScript',
    source: 'https://developer.lemlist.com/api-reference/getting-started/rate-limits',
    ...{ status: 429, denied: 2000 },
    fields: {
      date: 'Tue, 16 Feb 2021 08:02:40 GMT',
      ...three(
        'x-ratelimit-',
        '20',
        '7',
        'Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)',
      ),
    },
  },
  {
    ...{
      from: 'MailerLite, dates without a zone',
      source: 'https://developers-classic.mailerlite.com/docs/api-rate-limits',
    },
    ...{ status: 429, denied: 23_000, fields: three('x-ratelimit-', '60', '0', '2026-11-23 22:00:23') },
  },
  {
    ...{
      from: 'MailerLite, its own wait',
      source: 'https://developers-classic.mailerlite.com/docs/api-rate-limits',
    },
    ...{ status: 429, denied: 9000, fields: { 'x-ratelimit-retry-after': '9' } },
  },
  {
    ...{
      from: 'Brevo',
      source: 'https://developers.brevo.com/docs/limit-headers',
      status: 429,
      denied: 14_000,
    },
    fields: three('x-sib-ratelimit-', '1000', '0', '14'),
  },
  {
    ...{
      from: 'Sine',
      source: 'https://developer.sine.co/api/api-rate-limiting',
      status: 429,
      denied: 32_000,
    },
    fields: three('x-ratelimit-', '20, 20;w=60', '0', '32'),
  },
  {
    ...{ from: 'Novu', source: 'https://github.com/novuhq/docs/pull/718', status: 429, denied: 2000 },
    fields: {
      ...three('ratelimit-', '300', '0', '2'),
      'ratelimit-policy': '300;w=5;burst=330;comment="token bucket";category="trigger";cost="bulk"',
    },
  },
  {
    ...{ from: 'Akamai', source: 'https://techdocs.akamai.com/msl/reference/resource-limiting', status: 429 },
    denied: 4000,
    fields: {
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-next': '2026-11-23T22:00:04.000Z',
    },
  },
  {
    ...{ from: 'PUBG, nanoseconds', source: 'https://github.com/pubg/api-documentation-content/issues/61' },
    ...{ status: 429, denied: 5000, fields: three('x-ratelimit-', '10', '0', '1795471205000000000') },
  },
  {
    ...{ from: 'PUBG, microseconds', source: 'https://github.com/pubg/api-documentation-content/issues/61' },
    ...{ status: 429, denied: 5000, fields: three('x-ratelimit-', '10', '0', '1795471205000000') },
  },
  {
    ...{ from: 'Rocket.Chat, ms', source: 'https://github.com/RocketChat/docs-old/pull/1358', status: 429 },
    ...{ denied: 5706, fields: three('x-ratelimit-', '10', '0', '1795471205706') },
  },
  {
    ...{
      from: 'Smartsheet',
      source: 'https://developers.smartsheet.com/api/resource_management/getting-started',
    },
    ...{ status: 429, denied: 42_000 },
    fields: { date: 'Wed, 28 Dec 2016 23:06:40 GMT', ...three('x-ratelimit-', '120', '0', '1482966442') },
  },
  {
    ...{
      from: 'Uphold',
      source: 'https://github.com/seegno/uphold-sdk-php/pull/145',
      status: 429,
      denied: 60_000,
    },
    fields: { 'rate-limit-total': '300', 'rate-limit-remaining': '0', 'rate-limit-reset': '1795471260' },
  },
  {
    ...{ from: 'App.net', source: 'https://github.com/appdotnet/api-spec/issues/185', status: 429 },
    ...{ denied: 2_615_000, fields: three('x-ratelimit-', '5000', '4992', '2615') },
  },
  {
    ...{
      from: 'Turn.io',
      source: 'https://whatsapp.turn.io/docs/api/rate_limiting',
      status: 429,
      denied: 1000,
    },
    fields: { 'retry-after': '1', ...three('x-ratelimit-', '60', '21', '1533715145') },
  },
  {
    ...{ from: 'SharePoint', source: 'https://learn.microsoft.com/answers/questions/1120043', status: 429 },
    ...{ denied: 31_000, fields: { 'retry-after': '31', ...three('ratelimit-', '1200', '0', '31') } },
  },
  {
    ...{ from: 'Microsoft Graph', source: 'https://learn.microsoft.com/en-us/answers/questions/648796' },
    ...{ status: 429, denied: 315_000, fields: { 'retry-after': '315' } },
  },
  {
    ...{
      from: 'Spotify',
      source: 'https://developer.spotify.com/documentation/web-api/concepts/rate-limits',
    },
    ...{ status: 429, denied: 10_000, fields: { 'retry-after': '10' } },
  },
  {
    // Only the body shows the denial: the option `denied`.
    ...{ from: 'Google Drive', source: 'https://developers.google.com/drive/api/guides/limits', status: 403 },
    ...{ denied: false, fields: { 'content-type': 'application/json' } },
  },
  {
    ...{
      from: 'Prisjakt, read as seconds',
      source: 'https://developer.prisjakt.nu/docs/sections/rate-limit',
    },
    ...{ status: 429, denied: 600_000_000, fields: three('x-rate-limit-', '10000', '0', '600000') },
  },
  {
    ...{ from: 'a proxy that repeats fields', source: 'https://www.rfc-editor.org/rfc/rfc9110#section-5.3' },
    ...{ status: 429, denied: 7000 },
    fields: { 'retry-after': '7, 7', ...three('x-ratelimit-', '60, 60', '0, 0', '90, 90') },
  },
  {
    ...{ from: 'a proxy that repeats a date', source: 'https://www.rfc-editor.org/rfc/rfc9110#section-5.3' },
    ...{ status: 503, denied: 30_000 },
    fields: { 'retry-after': 'Mon, 23 Nov 2026 22:00:30 GMT,Mon, 23 Nov 2026 22:00:30 GMT' },
  },
  {
    ...{
      from: 'a proxy that repeats a remaining',
      source: 'https://www.rfc-editor.org/rfc/rfc9110#section-5.3',
    },
    ...{ status: 429, denied: 90_000, fields: three('x-ratelimit-', '60, 60', '0, 0', '90, 90') },
  },
  {
    ...{ from: 'a name with commas and semicolons', source: 'https://www.rfc-editor.org/rfc/rfc9651' },
    ...{ status: 429, denied: 30_000 },
    fields: {
      ratelimit: '"search, per user; v2";r=0;t=30, "day";r=5;t=7200',
      'ratelimit-policy': '"day";q=100;w=86400, "search, per user; v2";q=10;w=60',
    },
  },
  {
    ...{
      from: 'a date of asctime',
      source: 'https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7',
      status: 503,
    },
    ...{ denied: 30_000, fields: { 'retry-after': 'Mon Nov 23 22:00:30 2026' } },
  },
  {
    ...{ from: 'a site that is overloaded', source: 'https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4' },
    ...{ status: 503, denied: false, fields: three('x-ratelimit-', '60', '59', '30') },
  },
  {
    ...{
      from: 'bandwidth used up',
      source: 'https://docs.cpanel.net/knowledge-base/web-services',
      status: 509,
    },
    ...{ denied: 600_000, fields: { 'retry-after': '600' } },
  },
  {
    ...{
      from: 'an answer that comes later',
      source: 'https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3',
    },
    ...{ status: 202, denied: false, fields: { 'retry-after': '30' } },
  },
];
