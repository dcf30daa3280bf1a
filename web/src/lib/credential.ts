// Who one is: the admin token, which is sent as it is, or an Ed25519 key in OpenSSH's format, which signs a token for each
// request (docs/access.md). A secret stands in memory and in this tab's session storage, never in an address.

export interface Credential {
  /** The value of `Authorization` for a request. */
  authorize(method: string, pathAndQuery: string): Promise<string>;
}

const BEGIN = '-----BEGIN OPENSSH PRIVATE KEY-----';
const END = '-----END OPENSSH PRIVATE KEY-----';

/** Reads what somebody signs in with; throws an error for people. */
export async function credential(text: string, audience = address()): Promise<Credential> {
  const secret = text.trim();
  if (secret.startsWith('weir-admin-')) return { authorize: async () => `Bearer ${secret}` };
  if (!secret.startsWith(BEGIN)) {
    throw new Error("This is neither an admin token (weir-admin-…) nor an OpenSSH private key. 'weir key new FILE' makes a key.");
  }
  if (!globalThis.crypto?.subtle) {
    throw new Error('Browsers sign with keys only on pages that came over TLS or from this machine: open this page with https.');
  }
  const { blob, seed } = openssh(secret);
  const head = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
  const pkcs8 = new Uint8Array([...head, ...seed]);
  const key = await crypto.subtle.importKey('pkcs8', pkcs8, { name: 'Ed25519' }, false, ['sign']);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', blob));
  const sub = `SHA256:${base64(digest)}`;
  return { authorize: async (method, path) => `Bearer ${await sign(key, sub, audience, `${method} ${path}`)}` };
}

function address(): string {
  const { hostname, port, protocol } = location;
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`.toLowerCase();
}

async function sign(key: CryptoKey, sub: string, aud: string, req: string): Promise<string> {
  const iat = Math.floor(Date.now() / 1000);
  const jti = url(base64(crypto.getRandomValues(new Uint8Array(16))));
  const part = (value: unknown) => url(base64(new TextEncoder().encode(JSON.stringify(value))));
  const message = `${part({ alg: 'EdDSA', typ: 'JWT' })}.${part({ sub, aud, req, iat, exp: iat + 60, jti })}`;
  const signature = await crypto.subtle.sign({ name: 'Ed25519' }, key, new TextEncoder().encode(message));
  return `${message}.${url(base64(new Uint8Array(signature)))}`;
}

/** Base64 without padding. */
function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/=+$/, '');
}

const url = (text: string) => text.replaceAll('+', '-').replaceAll('/', '_');

/** The public key as OpenSSH encodes it, and the 32 bytes that the private one is made from (openssh-key-v1, PROTOCOL.key). */
export function openssh(text: string): { blob: Uint8Array<ArrayBuffer>; seed: Uint8Array<ArrayBuffer> } {
  const wrong = new Error('This OpenSSH key cannot be read: is it whole?');
  const body = text.slice(BEGIN.length, text.indexOf(END)).replace(/\s+/g, '');
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = Uint8Array.from(atob(body), (c) => c.charCodeAt(0));
  } catch {
    throw wrong;
  }
  const magic = 'openssh-key-v1\0';
  if (String.fromCharCode(...bytes.slice(0, magic.length)) !== magic) throw wrong;
  const reader = (data: Uint8Array<ArrayBuffer>, from: number) => {
    let at = from;
    const number = () => {
      if (at + 4 > data.length) throw wrong;
      const n = new DataView(data.buffer, data.byteOffset).getUint32(at);
      at += 4;
      return n;
    };
    const bytesOf = () => {
      const n = number();
      if (at + n > data.length) throw wrong;
      at += n;
      return data.slice(at - n, at);
    };
    return { number, bytes: bytesOf, text: () => String.fromCharCode(...bytesOf()) };
  };
  const outer = reader(bytes, magic.length);
  const cipher = outer.text();
  if (cipher !== 'none') throw new Error('This key has a passphrase, and cannot be read without it: use one that has none.');
  outer.text();
  outer.bytes();
  if (outer.number() !== 1) throw wrong;
  const blob = outer.bytes();
  const inner = reader(outer.bytes(), 0);
  if (inner.number() !== inner.number()) throw wrong;
  const kind = inner.text();
  if (kind !== 'ssh-ed25519') throw new Error(`This is a key of kind ${kind}; Weir takes ssh-ed25519.`);
  inner.bytes();
  const secret = inner.bytes();
  if (secret.length !== 64) throw wrong;
  return { blob, seed: secret.slice(0, 32) };
}
