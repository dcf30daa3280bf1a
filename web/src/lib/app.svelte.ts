// What all pages share: who is signed in, the graphs, the newest events.
import { Client, Refused, type Event, type GraphSummary, type WhoAmI } from './api';
import { credential } from './credential';
import { follow } from './events';

const SECRET = 'weir-secret';
/** Events that the page keeps: older ones are the daemon's to tell. */
const MOST = 500;
/** Least time between two lists of all graphs. */
const PAUSE = 1000;

class App {
  client = $state.raw<Client>();
  who = $state.raw<WhoAmI>();
  /** Whether this is a controller. */
  domain = $state(false);
  connected = $state(true);
  graphs = $state.raw<GraphSummary[]>([]);
  loaded = $state(false);
  events = $state.raw<Event[]>([]);
  /** Grows with each event of a graph, of nodes or of policies: pages look again. */
  changes = $state(0);
  error = $state('');

  private end: (() => void) | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private listed = 0;
  private fresh: Event[] = [];
  private frame = false;

  /** Signs in with what the tab has from before, or without a secret where none is asked for. */
  async resume(): Promise<void> {
    const secret = sessionStorage.getItem(SECRET);
    try {
      await this.open(secret ?? undefined);
    } catch (e) {
      if (secret) sessionStorage.removeItem(SECRET);
      if (!(e instanceof Refused) || e.status !== 401) throw e;
    }
  }

  async signIn(secret: string): Promise<void> {
    await this.open(secret);
  }

  signOut(): void {
    sessionStorage.removeItem(SECRET);
    this.end?.();
    clearTimeout(this.timer);
    this.client = undefined;
    this.who = undefined;
    this.graphs = [];
    this.events = [];
    this.fresh = [];
    this.loaded = false;
  }

  private async open(secret: string | undefined): Promise<void> {
    const client = new Client(secret === undefined ? undefined : await credential(secret));
    const who = await client.get<WhoAmI>('/whoami');
    // A node has no such resource; a controller has, for some.
    this.domain = await client.get('/nodes').then(
      () => true,
      (e: unknown) => e instanceof Refused && e.status === 403,
    );
    this.end?.();
    if (secret !== undefined) sessionStorage.setItem(SECRET, secret);
    this.client = client;
    this.who = who;
    const kept = await client.get<{ events: Event[] }>('/events/kept?limit=200').catch(() => ({ events: [] }));
    this.events = kept.events.reverse();
    const identity = `${who.name}:${who.role}:${who.tenant ?? ''}`;
    this.end = follow(client, identity, {
      event: (e) => this.take(e),
      connected: (yes) => {
        if (yes && !this.connected) this.refresh();
        this.connected = yes;
      },
    });
    await this.list();
  }

  /** Events are shown once a frame, however many come. */
  private take(event: Event): void {
    this.fresh.push(event);
    if (this.fresh.length > MOST) this.fresh.shift();
    if (this.frame) return;
    this.frame = true;
    setTimeout(() => {
      this.frame = false;
      const fresh = this.fresh.reverse();
      this.fresh = [];
      this.events = [...fresh, ...this.events].slice(0, MOST);
      if (fresh.some((e) => e.kind !== 'print' && e.kind !== 'notice')) {
        this.changes += 1;
        this.refresh();
      }
    }, 100);
  }

  /** Asks for the list of graphs again, soon. */
  refresh(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.list(), Math.max(50, this.listed + PAUSE - Date.now()));
  }

  private async list(): Promise<void> {
    if (!this.client) return;
    this.listed = Date.now();
    try {
      this.graphs = await this.client.get<GraphSummary[]>('/graphs');
      this.loaded = true;
      this.error = '';
    } catch (e) {
      if (e instanceof Refused && e.status === 401) return this.signOut();
      this.error = (e as Error).message;
      if (this.client) this.timer = setTimeout(() => void this.list(), 5000);
    }
  }
}

export const app = new App();

/** Calls `look` now and each so many milliseconds while the page is seen, one call at a time, until the function it gives is called. */
export function every(milliseconds: number, look: (signal: AbortSignal) => Promise<void>): () => void {
  const ended = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let busy = false;
  async function turn(): Promise<void> {
    if (busy || document.hidden || ended.signal.aborted) return;
    busy = true;
    await look(ended.signal).catch(() => undefined);
    busy = false;
    clearTimeout(timer);
    if (!ended.signal.aborted) timer = setTimeout(() => void turn(), milliseconds);
  }
  const seen = () => void turn();
  document.addEventListener('visibilitychange', seen);
  seen();
  return () => {
    document.removeEventListener('visibilitychange', seen);
    clearTimeout(timer);
    ended.abort();
  };
}
