// The stream of events, once for all tabs of a browser that are signed in as the same: over HTTP/1.1 a browser has six connections to
// a server, and a stream in each tab would take them all. Tabs that nobody sees hold no stream; when they are seen again they ask for
// what they missed.
import { linesOf, type Client, type Event } from './api';

export interface Listener {
  event(event: Event): void;
  /** Whether events come. */
  connected(yes: boolean): void;
}

/** Server-sent events of lines of text (HTML standard, section 9.2). */
export async function* parse(lines: AsyncIterable<string>): AsyncGenerator<string> {
  let data: string[] = [];
  for await (const raw of lines) {
    const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
    if (line === '') {
      if (data.length) yield data.join('\n');
      data = [];
    } else if (line.startsWith('data:')) {
      data.push(line.slice(line[5] === ' ' ? 6 : 5));
    }
  }
}

type Message = { event: Event } | { connected: boolean };

/** Follows events until the function that it gives is called. `who` names the one who is signed in. */
export function follow(client: Client, who: string, listener: Listener): () => void {
  const name = `weir-events:${who}`;
  const channel = new BroadcastChannel(name);
  const ended = new AbortController();
  let last: number | undefined;
  let hidden = new AbortController();

  const take = (message: Message) => {
    if ('connected' in message) return listener.connected(message.connected);
    const { event } = message;
    if (event.id !== undefined && event.id !== null) {
      if (last !== undefined && event.id <= last) return;
      last = event.id;
    }
    listener.event(event);
  };
  channel.onmessage = (m: MessageEvent<Message>) => take(m.data);
  const say = (message: Message) => {
    take(message);
    channel.postMessage(message);
  };

  async function stream(signal: AbortSignal): Promise<void> {
    let wait = 500;
    while (!signal.aborted) {
      try {
        const headers: Record<string, string> = last === undefined ? {} : { 'Last-Event-ID': String(last) };
        const response = await client.send('/events', { headers, signal });
        say({ connected: true });
        wait = 500;
        for await (const data of parse(linesOf(response))) say({ event: JSON.parse(data) as Event });
      } catch {
        if (signal.aborted) return;
      }
      say({ connected: false });
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, 10_000);
    }
  }

  async function missed(signal: AbortSignal): Promise<void> {
    if (last === undefined) return;
    const { events } = await client.get<{ events: Event[] }>('/events/kept?limit=500', signal);
    for (const event of events) take({ event });
  }

  /** While the tab is seen: waits for its turn, then holds the stream for all. */
  function watch(): void {
    hidden.abort();
    if (document.hidden || ended.signal.aborted) return;
    hidden = new AbortController();
    const signal = AbortSignal.any([hidden.signal, ended.signal]);
    void missed(signal).catch(() => undefined);
    listener.connected(true);
    // Locks are there on pages that came over TLS or from this machine; elsewhere each tab has its own stream.
    if (!navigator.locks) return void stream(signal);
    navigator.locks.request(name, { signal }, () => stream(signal)).catch(() => undefined);
  }

  document.addEventListener('visibilitychange', watch);
  watch();
  return () => {
    document.removeEventListener('visibilitychange', watch);
    ended.abort();
    channel.close();
  };
}
