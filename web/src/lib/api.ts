// What is asked of a node or controller over REST. Types are those of docs/openapi.json; those of a domain alone stand here.
import type { components } from '../generated/node';
import type { Credential } from './credential';

type Schemas = components['schemas'];
export type GraphSummary = Schemas['GraphSummary'];
export type GraphStatus = Schemas['GraphStatus'];
export type FunctionStatus = Schemas['FunctionStatus'];
export type Event = Schemas['Event'];
export type Plan = Schemas['Plan'];
export type Problem = Schemas['Problem'];
export type History = Schemas['History'];
export type AuditRecord = Schemas['Record'];
export type Tenant = Schemas['Tenant'];
export type Domain = Schemas['Domain'];
export type WhoAmI = Schemas['WhoAmI'];

export interface NodeSummary {
  name: string;
  state: 'online' | 'offline';
  since: number;
  cordoned: boolean;
  address?: string;
  version?: string;
  graphs: number;
  resources?: Schemas['ResourceUse'];
  trouble?: string[];
}

export interface NodeDetails extends NodeSummary {
  joined: number;
  certificate: number;
  placed: string[];
  own?: string[];
  domain?: Domain;
}

export interface LinkEnd {
  node: string;
  interface: string;
  address: string;
}

export interface LinkSummary {
  a: LinkEnd;
  b: LinkEnd;
  mtu?: number;
  tunnels: number;
}

export interface Policy {
  name: string;
  require: string[];
  tenants?: string[];
  kind?: string;
  graphs: number;
}

/** A service graph as `GET /graphs/ID` gives it. */
export interface Document {
  sffg: {
    id: string;
    name: string;
    tenant?: string;
    SFs?: { id: string; name?: string; template?: string; capability?: string; node?: string; ports?: { id: string }[] }[];
    saps?: ({ id: string; type: string; node?: string } & Record<string, unknown>)[];
    flowrules?: { id: string; priority: number; match: Record<string, unknown>; actions: Record<string, unknown> }[];
    requirements?: string[];
  };
}

/** A request was refused, or there was no answer (status 0). */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly problem?: Problem,
  ) {
    super(message);
  }
}

export interface Options {
  method?: string;
  body?: unknown;
  /** A body that is a document as it was written. */
  text?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export class Client {
  constructor(private readonly credential?: Credential) {}

  async send(path: string, options: Options = {}): Promise<Response> {
    const { method = 'GET', body, text, signal } = options;
    const headers: Record<string, string> = { ...options.headers };
    const target = `/v1${path}`;
    if (this.credential) headers.Authorization = await this.credential.authorize(method, target);
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const content = text ?? (body === undefined ? undefined : JSON.stringify(body));
    let response: Response;
    try {
      response = await fetch(target, { method, headers, body: content, signal, cache: 'no-store', credentials: 'omit' });
    } catch (e) {
      if (signal?.aborted) throw e;
      throw new Refused(0, 'There is no answer: the daemon or the network is away.');
    }
    if (response.ok) return response;
    const problem = (await response.json().catch(() => undefined)) as Problem | undefined;
    throw new Refused(response.status, problem?.detail ?? `${response.status} ${response.statusText}`, problem);
  }

  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await this.send(path, { signal })).json() as Promise<T>;
  }

  async post<T>(path: string, options: Options = {}): Promise<T | undefined> {
    const response = await this.send(path, { method: 'POST', ...options });
    return response.status === 204 ? undefined : ((await response.json()) as T);
  }
}

/** The lines of a response's body, until its end or until `signal` ends it. */
export async function* linesOf(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split('\n');
      rest = parts.pop() ?? '';
      yield* parts;
    }
    if (rest) yield rest;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** One part of a path. */
export const segment = encodeURIComponent;
