// The lines that `headgate init` adds, by framework.

export interface Framework {
  readonly title: string;
  /** Matches the line that makes the application. The first group is its indentation, the second its name. */
  readonly creation: RegExp;
  /** The function of Headgate that the program imports, and the sub-path that has it. */
  readonly name: string;
  readonly path: string;
  /** Whether the call needs `await`, so that routes that follow are limited. */
  readonly isAwaited: boolean;
  /** The call. @param app the name of the application */
  call(app: string, policy: string): string[];
}

const NOTE = [
  '// For each client address. Behind a proxy, the framework must trust it:',
  '// https://github.com/headgate/headgate/blob/main/docs/proxies.md',
];

const options = (policy: string): string => `policies: ['${policy.replaceAll("'", "\\'")}'],`;

export const FRAMEWORKS: Readonly<Record<string, Framework>> = {
  express: {
    ...{ title: 'Express', name: 'rateLimit', path: 'headgate/express', isAwaited: false },
    creation: /^([ \t]*)(?:export )?(?:const|let|var) (\w+)(?:: [\w.]+)? = express\(\);?$/m,
    call: (app, policy) => [...NOTE, `${app}.use(`, '  rateLimit({', `    ${options(policy)}`, '  }),', ');'],
  },
  fastify: {
    ...{ title: 'Fastify', name: 'rateLimitPlugin', path: 'headgate/fastify', isAwaited: true },
    creation: /^([ \t]*)(?:export )?(?:const|let|var) (\w+)(?:: [\w.]+)? = [Ff]astify\([^\n]*\);?$/m,
    call: (app, policy) => [
      ...NOTE,
      `await ${app}.register(rateLimitPlugin, {`,
      `  ${options(policy)}`,
      '});',
    ],
  },
};
