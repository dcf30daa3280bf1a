// Where one is: the part of the address behind `#`, which browsers do not send.

function read(): string[] {
  const parts = location.hash.replace(/^#\/?/, '').split('/').filter(Boolean);
  return parts.map((p) => {
    try {
      return decodeURIComponent(p);
    } catch {
      return p;
    }
  });
}

class Router {
  path = $state.raw(read());

  constructor() {
    addEventListener('hashchange', () => (this.path = read()));
  }
}

export const router = new Router();

export const href = (...parts: string[]) => `#/${parts.map(encodeURIComponent).join('/')}`;
