// The page of an operator, called without a server.
import { dashboard, type WebDashboardOptions } from 'headgate-dashboard';

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

export interface Caller {
  get(path: string): Promise<Answer>;
  post(path: string, body: object): Promise<Answer>;
}

/** Calls the page as the operator ada, unless the options have other visitors. */
export async function callerOf(options: WebDashboardOptions): Promise<Caller> {
  const page = dashboard({ actions: () => ({ by: 'ada' }), ...options });
  const html = await page(new Request('http://page/'));
  const token = /token=([\w-]+)/.exec(html.headers.get('set-cookie') ?? '')![1]!;
  const answerOf = async (response: Response): Promise<Answer> => ({
    status: response.status,
    body: (await response.json()) as Record<string, unknown>,
  });
  return {
    get: async (path) => answerOf(await page(new Request(`http://page/${path}`))),
    async post(path, body) {
      const headers = {
        ...{ 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
        ...{ 'x-headgate-token': token, cookie: `headgate-dashboard-token=${token}` },
      };
      const init = { method: 'POST', headers, body: JSON.stringify(body) };
      return answerOf(await page(new Request(`http://page/${path}`, init)));
    },
  };
}
