import { once } from 'node:events';
import { connect } from 'node:net';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

export interface Ask {
  readonly method?: string;
  /** The client's address, from the header of a trusted proxy. */
  readonly from?: string;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

export async function ask(
  url: string,
  { method = 'GET', from, headers = {}, signal }: Ask = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: from === undefined ? headers : { ...headers, 'x-forwarded-for': from },
    ...(signal ? { signal } : {}),
  });
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    text: await response.text(),
  };
}

/** Sends `n` requests in one packet on one connection. Resolves with the answers in order. */
export async function pipelined(port: number, n: number): Promise<Answer[]> {
  const socket = connect(port, '127.0.0.1');
  const request = (i: number) =>
    `GET / HTTP/1.1\r\nHost: localhost\r\nConnection: ${i === n - 1 ? 'close' : 'keep-alive'}\r\n\r\n`;
  socket.write(Array.from({ length: n }, (_, i) => request(i)).join(''));
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  await once(socket, 'close');
  return parse(text);
}

/** Reads answers with a Content-Length, in order. */
function parse(text: string): Answer[] {
  const answers: Answer[] = [];
  while (text !== '') {
    const end = text.indexOf('\r\n\r\n') + 4;
    const [status = '', ...lines] = text.slice(0, end - 4).split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 2),
      ]),
    );
    const length = Number(headers['content-length']);
    if (!(length >= 0)) throw new Error(`This answer has no Content-Length: ${text}`);
    answers.push({ status: Number(status.split(' ')[1]), headers, text: text.slice(end, end + length) });
    text = text.slice(end + length);
  }
  return answers;
}
